# Prints the emails of a Maildir as JSON, with all that a strict parser finds wrong. Usage: read.py MAILDIR
import email, email.errors, email.policy, hashlib, json, os, sys

policy = email.policy.SMTP + email.policy.strict

def read(raw):
    found = {"Headers": {}, "Parts": [], "Wrong": []}
    try:
        message = email.message_from_string(raw.decode("utf-8"), policy=policy)
    except Exception as defect:
        found["Wrong"].append(repr(defect))
        return found
    if any(len(line) > 998 for line in raw.splitlines()):
        found["Wrong"].append("a line of more than 998 characters")
    if not all(line.isascii() or b"@users.example" in line for line in raw.splitlines()):
        found["Wrong"].append("a line that is not ASCII, without an address")
    if b"\r" in raw.replace(b"\r\n", b""):
        found["Wrong"].append("a carriage return alone")
    for part in message.walk():
        found["Wrong"] += [repr(defect) for defect in part.defects]
        for name, value in part.items():
            # Addresses that need SMTPUTF8 (RFC 6532, section 3.2) are defects to a parser of RFC 5322.
            found["Wrong"] += [f"{name}: {defect!r}" for defect in value.defects if not isinstance(defect, email.errors.NonASCIILocalPartDefect)]
        content = None if part.is_multipart() else part.get_content()
        if isinstance(content, bytes):
            content = hashlib.sha256(content).hexdigest()
        found["Parts"].append({
            "Type": part.get_content_type(), "Encoding": part.get("Content-Transfer-Encoding", ""), "ID": part.get("Content-ID", ""),
            "Charset": part.get_content_charset(""), "Content": content or "",
        })
    for name, value in message.items():
        if name in found["Headers"] and name != "Received":
            found["Wrong"].append(name + " twice")
        found["Headers"][name] = str(value)
    for name in ("Date", "From", "To", "Message-ID", "MIME-Version"):
        if name not in found["Headers"]:
            found["Wrong"].append("no " + name)
    if message["Date"] and message["Date"].datetime is None:
        found["Wrong"].append("no date")
    try:
        message.as_bytes(policy=policy.clone(utf8=True))
    except Exception as defect:
        found["Wrong"].append(f"cannot be written again: {defect!r}")
    return found

folder = os.path.join(sys.argv[1], "new")
names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
print(json.dumps([read(open(os.path.join(folder, name), "rb").read()) for name in names]))
