// An HTTP client: `ask.js ADDRESS PORT`. 400 requests over at most 20 connections, half of them with a body, and a long answer.
const http = require('http');
const crypto = require('crypto');

const [host, port] = [process.argv[2], Number(process.argv[3])];
const agent = new http.Agent({ keepAlive: true, maxSockets: 20 });

function ask(method, path, body) {
  return new Promise((resolve, reject) => {
    const request = http.request({ host, port, agent, method, path }, (response) => {
      const parts = [];
      response.on('data', (part) => parts.push(part));
      response.on('end', () => resolve(Buffer.concat(parts)));
    });
    request.on('error', reject);
    request.end(body);
  });
}

async function main() {
  const asked = [];
  for (let n = 0; n < 400; n++) asked.push(n % 2 ? ask('POST', `/${n}`, 'x'.repeat(n * 10)) : ask('GET', `/${n}`));
  console.log((await Promise.all(asked)).join(''));
  const long = await ask('GET', '/long');
  console.log(long.length, crypto.createHash('sha256').update(long).digest('hex'));
  agent.destroy();
}

main().catch((error) => { console.log('failed', error.message); process.exit(1); });
