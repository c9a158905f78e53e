"""Letters are left in a mailbox and fetched again: `letters.py ADDRESS PORT`."""

import hashlib
import imaplib
import sys


def main(address, port):
    for n in range(6):
        box = imaplib.IMAP4(address, int(port))
        box.login(f"user{n % 3}", "word")
        box.select()
        letter = b"Subject: %d\r\n\r\n" % n + hashlib.shake_128(b"%d" % n).hexdigest(100_000).encode() + b"\r\n"
        box.append("INBOX", None, None, letter)
        count = box.select()[1][0]
        got = box.fetch(count, "(RFC822)")[1][0][1]
        print(n, count.decode(), got == letter)
        box.logout()


main(*sys.argv[1:])
