import java.net.URI;
import java.net.http.*;

class Get {
  public static void main(String[] arguments) throws Exception {
    var address = URI.create(System.getenv("CONNECT_BASE_URL") + "/.well-known/oauth-authorization-server");
    System.out.println(HttpClient.newHttpClient().send(HttpRequest.newBuilder(address).build(), HttpResponse.BodyHandlers.ofString()).body());
  }
}
