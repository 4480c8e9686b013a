import java.util.List;
import org.apache.spark.sql.SparkSession;

/** Reads tables of a REST catalog with Spark, each at a tag, and writes what it read as Parquet files. */
public class SparkReader {
  /** Arguments: the catalog's address and warehouse, the store's address, the namespace, the directory for the files, then table@tag. */
  public static void main(String[] args) throws Exception {
    var builder = SparkSession.builder().master("local[2]").appName("reader");
    builder.config("spark.ui.enabled", "false");
    builder.config("spark.driver.host", "127.0.0.1");
    builder.config("spark.driver.bindAddress", "127.0.0.1");
    builder.config("spark.sql.session.timeZone", "UTC");
    builder.config("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS");
    builder.config("spark.sql.catalog.lake", "org.apache.iceberg.spark.SparkCatalog");
    builder.config("spark.sql.catalog.lake.type", "rest");
    builder.config("spark.sql.catalog.lake.uri", args[0]);
    builder.config("spark.sql.catalog.lake.warehouse", args[1]);
    builder.config("spark.sql.catalog.lake.io-impl", "org.apache.iceberg.aws.s3.S3FileIO");
    builder.config("spark.sql.catalog.lake.s3.endpoint", args[2]);
    builder.config("spark.sql.catalog.lake.s3.path-style-access", "true");
    builder.config("spark.sql.catalog.lake.s3.access-key-id", "any");
    builder.config("spark.sql.catalog.lake.s3.secret-access-key", "any");
    builder.config("spark.sql.catalog.lake.client.region", "us-east-1");
    try (var spark = builder.getOrCreate()) {
      spark.sparkContext().setLogLevel("ERROR");
      for (String read : List.of(args).subList(5, args.length)) {
        String[] parts = read.split("@");
        String from = "lake." + args[3] + "." + parts[0];
        spark.sql("SELECT * FROM " + from + " VERSION AS OF '" + parts[1] + "'")
            .write()
            .parquet(args[4] + "/" + parts[1] + "/" + parts[0]);
      }
      System.out.println("Spark " + spark.version());
    }
  }
}
