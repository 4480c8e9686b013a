import java.net.InetSocketAddress;
import java.util.HashMap;
import java.util.Map;
import org.apache.iceberg.CatalogUtil;
import org.apache.iceberg.rest.RESTCatalogAdapter;
import org.apache.iceberg.rest.RESTCatalogServlet;
import org.eclipse.jetty.ee10.servlet.ServletContextHandler;
import org.eclipse.jetty.ee10.servlet.ServletHolder;
import org.eclipse.jetty.server.Server;

/** Apache Iceberg's reference REST catalog, on the loopback address: its own main class listens on all addresses. */
public class ReferenceCatalog {
  /** Arguments: the port, then properties of the catalog as name=value. */
  public static void main(String[] args) throws Exception {
    Map<String, String> properties = new HashMap<>();
    for (int index = 1; index < args.length; index += 1) {
      String[] parts = args[index].split("=", 2);
      properties.put(parts[0], parts[1]);
    }
    var adapter = new RESTCatalogAdapter(CatalogUtil.buildIcebergCatalog("reference", properties, null));
    var context = new ServletContextHandler();
    context.addServlet(new ServletHolder(new RESTCatalogServlet(adapter)), "/*");
    var server = new Server(new InetSocketAddress("127.0.0.1", Integer.parseInt(args[0])));
    server.setHandler(context);
    server.start();
    server.join();
  }
}
