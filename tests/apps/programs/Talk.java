import com.sun.net.httpserver.HttpServer;
import java.io.*;
import java.net.*;
import java.net.http.*;
import java.nio.ByteBuffer;
import java.nio.channels.*;
import java.util.*;
import java.util.concurrent.*;

/** `Talk serve PORT` and `Talk ask ADDRESS PORT`: HTTP, and an echo by java.nio at the next port. */
public class Talk {
    public static void main(String[] words) throws Exception {
        if (words[0].equals("serve")) serve(Integer.parseInt(words[1]));
        else ask(words[1], Integer.parseInt(words[2]));
    }

    static void serve(int port) throws Exception {
        HttpServer http = HttpServer.create(new InetSocketAddress("0.0.0.0", port), 100);
        byte[] big = new byte[5_000_000];
        new Random(1).nextBytes(big);
        http.createContext("/", exchange -> {
            byte[] body = exchange.getRequestBody().readAllBytes();
            byte[] answer = exchange.getRequestURI().getPath().equals("/big") ? big : (exchange.getRequestURI() + " " + body.length).getBytes();
            exchange.sendResponseHeaders(200, answer.length);
            try (OutputStream out = exchange.getResponseBody()) { out.write(answer); }
        });
        http.setExecutor(Executors.newFixedThreadPool(8));
        http.start();
        ServerSocketChannel listener = ServerSocketChannel.open();
        listener.bind(new InetSocketAddress("0.0.0.0", port + 1));
        listener.configureBlocking(false);
        Selector selector = Selector.open();
        listener.register(selector, SelectionKey.OP_ACCEPT);
        System.out.println("ready");
        while (true) {
            selector.select();
            for (Iterator<SelectionKey> keys = selector.selectedKeys().iterator(); keys.hasNext();) {
                SelectionKey key = keys.next();
                keys.remove();
                if (key.isAcceptable()) {
                    SocketChannel channel = listener.accept();
                    if (channel == null) continue;
                    channel.configureBlocking(false);
                    channel.register(selector, SelectionKey.OP_READ, ByteBuffer.allocate(65536));
                } else if (!echo(key)) {
                    key.channel().close();
                }
            }
        }
    }

    /** Echoes what is there, and asks for room when there is none; false at the end. */
    static boolean echo(SelectionKey key) throws IOException {
        ByteBuffer buffer = (ByteBuffer) key.attachment();
        SocketChannel channel = (SocketChannel) key.channel();
        if (key.isReadable() && channel.read(buffer) < 0) return false;
        buffer.flip();
        channel.write(buffer);
        buffer.compact();
        key.interestOps((buffer.position() > 0 ? SelectionKey.OP_WRITE : 0) | (buffer.hasRemaining() ? SelectionKey.OP_READ : 0));
        return true;
    }

    static void ask(String address, int port) throws Exception {
        HttpClient client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).connectTimeout(java.time.Duration.ofSeconds(10)).build();
        List<CompletableFuture<HttpResponse<String>>> asked = new ArrayList<>();
        String base = "http://" + address + ":" + port + "/";
        for (int round = 0; round < 10; round++) {
            asked.clear();
            for (int n = 0; n < 20; n++) {
                HttpRequest request = HttpRequest.newBuilder(URI.create(base + round + "-" + n)).POST(HttpRequest.BodyPublishers.ofString("x".repeat(n * 100))).build();
                asked.add(client.sendAsync(request, HttpResponse.BodyHandlers.ofString()));
            }
            for (CompletableFuture<HttpResponse<String>> one : asked) System.out.println(one.get(20, TimeUnit.SECONDS).body());
        }
        byte[] big = client.send(HttpRequest.newBuilder(URI.create(base + "big")).build(), HttpResponse.BodyHandlers.ofByteArray()).body();
        System.out.println(big.length + " " + Arrays.hashCode(big));
        try (Socket socket = new Socket(address, port + 1)) {
            socket.setTcpNoDelay(true);
            byte[] sent = new byte[3_000_000];
            new Random(2).nextBytes(sent);
            Thread writer = new Thread(() -> {
                try { socket.getOutputStream().write(sent); } catch (IOException error) { System.out.println(error); }
            });
            writer.start();
            byte[] got = socket.getInputStream().readNBytes(sent.length);
            writer.join();
            System.out.println("echo " + Arrays.equals(sent, got));
        }
        try (Socket socket = new Socket(address, port + 2)) {
            System.out.println("connected to nobody");
        } catch (ConnectException error) {
            System.out.println(error.getMessage());
        }
    }
}
