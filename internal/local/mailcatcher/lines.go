package mailcatcher

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"unicode/utf8"
)

// Longest lines in octets, with CRLF: RFC 5321, sections 4.5.3.1.4 and 4.5.3.1.6; RFC 4954, section 4.
const (
	maxCommand = 512
	maxText    = 1000
	maxAuth    = 12288
)

// Faults of a line.
const (
	tooLong    = "is too long"
	bareFeed   = "ends with a line feed alone"
	bareReturn = "has a carriage return alone"
	hasNUL     = "has a character NUL"
)

// readLine reads a line and removes its end. The line is over where a line feed stands, with a carriage return before it or without. A line
// with a fault need not be whole. The error is the connection's.
func readLine(r *bufio.Reader, limit int) (line []byte, fault string, err error) {
	for whole := false; !whole; {
		piece, err := r.ReadSlice('\n')
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return nil, "", err
		}
		whole = err == nil
		line = append(line, piece[:min(len(piece), limit+1-len(line))]...)
	}
	text, ends := bytes.CutSuffix(line, []byte("\r\n"))
	switch {
	case len(line) > limit:
		return line, tooLong, nil
	case !ends:
		return bytes.TrimSuffix(line, []byte("\n")), bareFeed, nil
	case bytes.IndexByte(text, '\r') >= 0:
		return text, bareReturn, nil
	case bytes.IndexByte(text, 0) >= 0:
		return text, hasNUL, nil
	}
	return text, "", nil
}

// readContent reads an email up to the line with a dot alone. reply is what is wrong with it, or empty. open tells whether what follows is
// certainly no part of the email: after a line feed alone other servers may see its end elsewhere.
func (s *session) readContent() (content []byte, reply string, open bool, err error) {
	var text []byte
	wrong := func(number int, fault string) {
		if reply == "" {
			reply = fmt.Sprintf("554 5.6.0 line %d %s", number, fault)
		}
	}
	open, inHeader := true, true
	for number := 1; ; number++ {
		s.renew()
		line, fault, err := readLine(s.reader, maxText+1) // with a dot that does not count
		if err != nil {
			return nil, "", false, err
		}
		if fault != "" {
			wrong(number, fault)
			open = open && fault != bareFeed
		}
		if len(line) > 0 && line[0] == '.' {
			if len(line) == 1 {
				break
			}
			if line[1] != '.' { // RFC 5321, section 4.5.2
				wrong(number, "begins with a dot that was not doubled")
			}
			line = line[1:]
		}
		if len(line) > maxText-2 {
			wrong(number, tooLong)
		}
		if len(line) == 0 {
			inHeader = false
		}
		switch is7Bit := isASCII(string(line)); {
		case is7Bit:
		case inHeader && !s.utf8:
			wrong(number, "of the header is not ASCII, without SMTPUTF8")
		case inHeader && !utf8.Valid(line):
			wrong(number, "of the header is not UTF-8")
		case !inHeader && !s.eightBit:
			wrong(number, "is not ASCII, without BODY=8BITMIME")
		}
		if len(text)+len(line)+2 > s.maxSize() {
			reply = tooLarge
		} else {
			text = append(append(text, line...), "\r\n"...)
		}
	}
	return text, reply, open, nil
}

const tooLarge = "552 5.3.4 the email is too large"

// Forms of RFC 5321, section 4.1.2. RFC 6531, section 3.3, adds characters that are not ASCII.
var (
	argumentForm = regexp.MustCompile("^<(?:(" + dotString + "|" + quotedString + ")@(" + `[^\s<>"@]+` + "))?>" + `((?: [A-Za-z0-9][A-Za-z0-9-]*(?:=[!-<>-~]+)?)*)$`)
	domainForm   = regexp.MustCompile("^" + label + `(?:\.` + label + ")*$")
)

const (
	atom         = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~\u0080-\U0010ffff-]+"
	dotString    = atom + `(?:\.` + atom + ")*"
	quotedString = `"(?:[ !#-\[\]-~` + "\u0080-\U0010ffff" + `]|\\[ -~])*"`
	edge         = "[A-Za-z0-9\u0080-\U0010ffff]"
	label        = edge + "(?:[A-Za-z0-9\u0080-\U0010ffff-]{0,61}" + edge + ")?"
)

// isHost tells whether the text is the name of a host, or an address in square brackets.
func isHost(text string) bool {
	literal, isLiteral := strings.CutPrefix(text, "[")
	if !isLiteral {
		return domainForm.MatchString(text)
	}
	literal, closed := strings.CutSuffix(literal, "]")
	literal, wants6 := strings.CutPrefix(literal, "IPv6:")
	address, err := netip.ParseAddr(literal)
	return closed && err == nil && address.Is6() == wants6 && address.Zone() == ""
}

func isASCII(text string) bool {
	return !strings.ContainsFunc(text, func(c rune) bool { return c > 0x7f })
}
