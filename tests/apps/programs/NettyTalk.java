import io.netty.bootstrap.*;
import io.netty.buffer.*;
import io.netty.channel.*;
import io.netty.channel.nio.NioEventLoopGroup;
import io.netty.channel.socket.SocketChannel;
import io.netty.channel.socket.nio.*;
import java.util.*;
import java.util.concurrent.*;

/** An echo by Netty: `NettyTalk serve PORT` and `NettyTalk ask ADDRESS PORT`. */
public class NettyTalk {
    public static void main(String[] words) throws Exception {
        if (words[0].equals("serve")) serve(Integer.parseInt(words[1]));
        else ask(words[1], Integer.parseInt(words[2]));
    }

    static class Echo extends ChannelInboundHandlerAdapter {
        @Override public void channelRead(ChannelHandlerContext context, Object message) { context.writeAndFlush(message); }
    }

    static void serve(int port) throws Exception {
        ServerBootstrap bootstrap = new ServerBootstrap().group(new NioEventLoopGroup(1), new NioEventLoopGroup(2)).channel(NioServerSocketChannel.class);
        bootstrap.childHandler(new ChannelInitializer<SocketChannel>() {
            @Override protected void initChannel(SocketChannel channel) { channel.pipeline().addLast(new Echo()); }
        });
        bootstrap.bind("0.0.0.0", port).sync();
        System.out.println("ready");
    }

    /** Counts what comes back, and sums it up. */
    static class Count extends ChannelInboundHandlerAdapter {
        final int wanted;
        final CompletableFuture<Integer> sum = new CompletableFuture<>();
        int got, hash;
        Count(int wanted) { this.wanted = wanted; }
        @Override public void channelRead(ChannelHandlerContext context, Object message) {
            ByteBuf bytes = (ByteBuf) message;
            while (bytes.isReadable()) { hash = 31 * hash + bytes.readByte(); got++; }
            bytes.release();
            if (got == wanted) { sum.complete(hash); context.close(); }
        }
        @Override public void exceptionCaught(ChannelHandlerContext context, Throwable cause) { sum.completeExceptionally(cause); }
    }

    static Count start(Bootstrap bootstrap, String address, int port, byte[] sent) throws Exception {
        Count count = new Count(sent.length);
        bootstrap.clone().handler(count).connect(address, port).sync().channel().writeAndFlush(Unpooled.wrappedBuffer(sent));
        return count;
    }

    static void ask(String address, int port) throws Exception {
        NioEventLoopGroup group = new NioEventLoopGroup(2);
        Bootstrap bootstrap = new Bootstrap().group(group).channel(NioSocketChannel.class);
        List<Count> counts = new ArrayList<>();
        for (int n = 0; n < 50; n++) counts.add(start(bootstrap, address, port, ("connection " + n + " ").repeat(500).getBytes()));
        for (Count count : counts) System.out.println(count.wanted + " " + count.sum.get(20, TimeUnit.SECONDS));
        byte[] big = new byte[5_000_000];
        new Random(1).nextBytes(big);
        System.out.println("big " + start(bootstrap, address, port, big).sum.get(30, TimeUnit.SECONDS));
        group.shutdownGracefully().sync();
    }
}
