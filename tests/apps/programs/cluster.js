// An HTTP server: `cluster.js cluster PORT` with four workers, to whom the first process hands connections; `cluster.js single PORT` alone.
const cluster = require('cluster');
const http = require('http');
const dgram = require('dgram');

const [mode, port] = [process.argv[2], Number(process.argv[3])];
const long = Buffer.alloc(5000000, 'a long answer ');

function serve(ready) {
  http.createServer((request, response) => {
    if (request.url === '/long') return response.end(long);
    const parts = [];
    request.on('data', (part) => parts.push(part));
    request.on('end', () => response.end(`${request.method} ${request.url} ${Buffer.concat(parts).length}\n`));
  }).listen(port, '0.0.0.0', ready);
}

if (mode === 'single') {
  const socket = dgram.createSocket('udp4');
  socket.on('message', (message, from) => socket.send(message.toString().toUpperCase(), from.port, from.address));
  socket.bind(port, '0.0.0.0', () => serve(() => console.log('ready')));
} else if (cluster.isPrimary) {
  let listening = 0;
  cluster.on('listening', () => { if (++listening === 4) console.log('ready'); });
  for (let n = 0; n < 4; n++) cluster.fork();
} else {
  // Some have used the network by the time that they get a connection.
  if (cluster.worker.id % 2) require('os').networkInterfaces();
  serve();
}
