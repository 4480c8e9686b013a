import duckdb; print(duckdb.__version__)
c=duckdb.connect('/tmp/s6/gv.duckdb',read_only=True)
for v in 'ab':
    try: print(v,c.execute(f'select count(*) from {v}').fetchall())
    except Exception as e: print(v,str(e)[:200])
