import { join } from 'node:path'
import { writeNew } from '#src/lib/durable.ts'
import { type LakeAccess, openToReaders } from './access.ts'
import { type CatalogSource, PLACE_VARIABLE } from './catalog.ts'

export const READ_ME = 'LEIA-ME.txt'

/** Tells people how to read a snapshot, also elsewhere. It holds no data, so it need not survive a power failure. */
export async function writeReadMe(
  source: Pick<CatalogSource, 'company' | 'publishedAt' | 'directory' | 'snapshot'>,
  access: LakeAccess,
): Promise<void> {
  const path = join(source.directory, READ_ME)
  await writeNew(path, textOf(source))
  await openToReaders(path, access)
}

function textOf({ company, publishedAt, directory, snapshot }: Parameters<typeof writeReadMe>[0]): string {
  const elsewhere = `SET VARIABLE ${PLACE_VARIABLE} = '/outro/lugar/${snapshot}';`
  return `Editais de ${company}, retrato publicado em ${publishedAt} (UTC). Depois de publicado, nada aqui muda.

catalog.duckdb            todas as tabelas, os marts e seus comentários: abra com DuckDB 1.1 ou mais novo, só para leitura
<tabela>/<mês>.parquet    os mesmos dados, para qualquer leitor de Parquet
marts/<mart>.parquet      os marts, se LAKE_MARTS=on

O catálogo lê os arquivos em ${directory}
Se você copiou, moveu ou montou este diretório em outro lugar, diga onde, em cada conexão:

    ${elsewhere}

Para levar tudo em um só arquivo: npm run export -- --to editais.duckdb

--

Tender notices of ${company}, a snapshot of ${publishedAt} (UTC). Once published, nothing here changes.

The catalog reads its files by the path above. If you copied, moved or mounted this directory elsewhere, name its place
in each connection, as above. For a single file that can be copied anywhere: npm run export -- --to editais.duckdb
`
}
