package mailcatcher

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// session is one connection of a client. It answers every command by RFC 5321 and accepts no form that the standard does not have.
type session struct {
	*Catcher
	logger *slog.Logger
	client net.Conn
	reader *bufio.Reader

	overTLS  bool
	greeted  bool // by EHLO or HELO
	extended bool // by EHLO
	loggedIn bool
	transaction
}

// transaction is one email up to its content.
type transaction struct {
	begun    bool
	from     string
	to       []string
	utf8     bool
	eightBit bool
}

// serve answers a client until it or the server ends the session.
func (c *Catcher) serve(client net.Conn, logger *slog.Logger) {
	s := &session{Catcher: c, logger: logger, client: client}
	if s.ImplicitTLS {
		s.client, s.overTLS = tls.Server(client, s.TLS), true
	}
	s.reader = bufio.NewReader(s.client)
	defer func() { _ = s.client.Close() }() // STARTTLS replaces it
	s.renew()
	for open := s.say("220 localhost ESMTP"); open; {
		s.renew()
		line, fault, err := readLine(s.reader, maxCommand)
		if err != nil {
			return
		}
		switch fault {
		case "":
			open = s.answer(string(line))
		case tooLong:
			open = s.refuse("500 5.5.2 the line is too long")
		default:
			open = s.refuse("501 5.5.2 the line " + fault)
		}
	}
}

// renew gives the client time for its next line.
func (s *session) renew() { _ = s.client.SetDeadline(time.Now().Add(smtpTimeout)) }

// say writes a reply, whose lines end with \n, and tells whether the session goes on.
func (s *session) say(reply string) (open bool) {
	_, err := fmt.Fprintf(s.client, "%s\r\n", strings.ReplaceAll(reply, "\n", "\r\n"))
	return err == nil && !strings.HasPrefix(reply, "421") && !strings.HasPrefix(reply, "221")
}

// refuse is say for what the standard forbids.
func (s *session) refuse(reply string) (open bool) {
	s.logger.Warn("the mail catcher refuses what a client said", "reply", reply)
	return s.say(reply)
}

// commands that the server knows. Those that are waited for are the last that a client may send before it has the reply (RFC 2920,
// section 3.1).
var commands = map[string]struct {
	act      func(s *session, argument string) (open bool)
	bare     bool // has no argument
	early    bool // needs no greeting
	awaited  bool
	extended bool // comes with an extension
}{
	"EHLO":     {act: func(s *session, name string) bool { return s.greet(name, true) }, early: true, awaited: true},
	"HELO":     {act: func(s *session, name string) bool { return s.greet(name, false) }, early: true, awaited: true},
	"STARTTLS": {act: (*session).startTLS, bare: true, awaited: true, extended: true},
	"AUTH":     {act: (*session).auth, awaited: true, extended: true},
	"MAIL":     {act: (*session).mail},
	"RCPT":     {act: (*session).rcpt},
	"DATA":     {act: (*session).data, bare: true, awaited: true},
	"RSET":     {act: (*session).reset, bare: true, early: true},
	"NOOP":     {act: func(s *session, _ string) bool { return s.say("250 2.0.0 done nothing") }, early: true, awaited: true},
	"VRFY":     {act: func(s *session, _ string) bool { return s.say("252 2.5.0 unknown") }, early: true, awaited: true},
	"QUIT":     {act: func(s *session, _ string) bool { return s.say("221 2.0.0 bye") }, bare: true, early: true, awaited: true},
}

func (s *session) answer(line string) (open bool) {
	verb, argument, hasArgument := strings.Cut(line, " ")
	verb = strings.ToUpper(verb)
	command, known := commands[verb]
	switch {
	case strings.ContainsFunc(line, func(c rune) bool { return c < ' ' || c == 0x7f }):
		return s.refuse("501 5.5.2 the line has a control character")
	case !known:
		return s.refuse("500 5.5.2 unknown command")
	case command.bare && hasArgument:
		return s.refuse("501 5.5.4 " + verb + " has no argument")
	case !command.early && !s.greeted:
		return s.refuse("503 5.5.1 EHLO comes first")
	case command.extended && !s.offers(verb):
		return s.refuse("503 5.5.1 " + verb + " is not offered")
	case s.reader.Buffered() > 0 && (command.awaited || !s.offers("PIPELINING")):
		return s.refuse("503 5.5.0 a command came before the reply to " + verb)
	}
	if s.Reply != nil {
		if reply := s.Reply(line); reply != "" {
			return s.say(reply)
		}
	}
	return command.act(s, argument)
}

// offers tells whether an extension is offered in this state of the session.
func (s *session) offers(extension string) bool {
	switch {
	case !s.extended || slices.Contains(s.Without, extension):
		return false
	case extension == "STARTTLS":
		return s.TLS != nil && !s.overTLS
	case extension == "AUTH":
		return s.Password != "" && s.overTLS
	case extension == "SMTPUTF8":
		return s.UTF8
	}
	return true
}

func (s *session) maxSize() int {
	if s.MaxSize == 0 {
		return maxEmailSize
	}
	return s.MaxSize
}

func (s *session) mechanism() string {
	if s.Login {
		return "LOGIN"
	}
	return "PLAIN"
}
func (s *session) greet(name string, extended bool) bool {
	if !isHost(name) || !isASCII(name) {
		return s.refuse("501 5.5.4 want the name of a host, or its address in square brackets")
	}
	s.greeted, s.extended, s.transaction = true, extended, transaction{}
	if !extended {
		return s.say("250 localhost")
	}
	reply := "250-localhost\n"
	for _, extension := range []string{"PIPELINING", "8BITMIME", "SMTPUTF8", "STARTTLS", fmt.Sprintf("SIZE %d", s.maxSize()), "AUTH " + s.mechanism()} {
		if keyword, _, _ := strings.Cut(extension, " "); s.offers(keyword) {
			reply += "250-" + extension + "\n"
		}
	}
	return s.say(reply + "250 ENHANCEDSTATUSCODES")
}

func (s *session) startTLS(string) bool {
	if !s.say("220 2.0.0 begin") {
		return false
	}
	s.client, s.overTLS = tls.Server(s.client, s.TLS), true
	s.reader = bufio.NewReader(s.client)
	s.greeted, s.extended, s.transaction = false, false, transaction{}
	return true
}

// auth is RFC 4954: a response may come with the command, a response `*` ends it.
func (s *session) auth(argument string) bool {
	mechanism, initial, hasInitial := strings.Cut(argument, " ")
	switch {
	case s.loggedIn || s.begun:
		return s.refuse("503 5.5.1 AUTH comes once, before MAIL")
	case !strings.EqualFold(mechanism, s.mechanism()):
		return s.refuse("504 5.5.4 this mechanism is not offered")
	}
	response := func(challenge string) (string, bool) {
		if !hasInitial {
			s.say("334 " + base64.StdEncoding.EncodeToString([]byte(challenge)))
			line, fault, err := readLine(s.reader, maxAuth)
			if err != nil || fault != "" {
				return "", false
			}
			initial = string(line)
		}
		hasInitial = false
		decoded, err := base64.StdEncoding.Strict().DecodeString(initial)
		return string(decoded), err == nil
	}
	var given string
	if s.Login {
		_, valid := response("Username:")
		if password, also := response("Password:"); valid && also {
			given = password
		} else {
			return s.refuse("501 5.5.2 want base64")
		}
	} else {
		credentials, valid := response("")
		parts := strings.Split(credentials, "\x00") // RFC 4616: authorization identity, user, password
		if !valid || len(parts) != 3 {
			return s.refuse("501 5.5.2 want base64 of a user and a password")
		}
		given = parts[2]
	}
	if given != s.Password {
		return s.say("535 5.7.8 wrong password")
	}
	s.loggedIn = true
	return s.say("235 2.7.0 welcome")
}

func (s *session) reset(string) bool {
	s.transaction = transaction{}
	return s.say("250 2.0.0 reset")
}

func (s *session) mail(argument string) bool {
	path, isFrom := cutFold(argument, "FROM:")
	sender, parameters, valid := s.split(path)
	switch {
	case s.begun:
		return s.refuse("503 5.5.1 MAIL within an email")
	case !isFrom || !valid:
		return s.refuse("501 5.1.7 want MAIL FROM:<address>, then a space before each parameter")
	case s.Password != "" && !s.loggedIn:
		return s.say("530 5.7.0 log in first")
	}
	begun := transaction{begun: true, from: sender}
	var names []string
	for _, parameter := range parameters {
		name, value, hasValue := strings.Cut(parameter, "=")
		name, value = strings.ToUpper(name), strings.ToUpper(value)
		size, notNumber := strconv.Atoi(value)
		switch {
		case slices.Contains(names, name):
			return s.refuse("501 5.5.4 " + name + " came twice")
		case name == "SMTPUTF8" && s.offers("SMTPUTF8") && !hasValue:
			begun.utf8 = true
		case name == "BODY" && s.offers("8BITMIME") && (value == "7BIT" || value == "8BITMIME"):
			begun.eightBit = value == "8BITMIME"
		case name == "SIZE" && s.offers("SIZE") && notNumber == nil && size >= 0:
			if size > s.maxSize() {
				return s.say(tooLarge)
			}
		case name == "SMTPUTF8" && s.offers("SMTPUTF8"), name == "BODY" && s.offers("8BITMIME"), name == "SIZE" && s.offers("SIZE"):
			return s.refuse("501 5.5.4 this is no value of " + name)
		default:
			return s.refuse("555 5.5.4 this parameter is not offered")
		}
		names = append(names, name)
	}
	if !isASCII(sender) && !begun.utf8 {
		return s.refuse("553 5.6.7 this address needs SMTPUTF8")
	}
	s.transaction = begun
	return s.say("250 2.1.0 accepted")
}

func (s *session) rcpt(argument string) bool {
	path, isTo := cutFold(argument, "TO:")
	to, parameters, valid := s.split(path)
	switch {
	case !s.begun:
		return s.refuse("503 5.5.1 MAIL comes first")
	case !isTo || !valid || to == "":
		return s.refuse("501 5.1.3 want RCPT TO:<address>, then a space before each parameter")
	case len(parameters) > 0:
		return s.refuse("555 5.5.4 this parameter is not offered")
	case !isASCII(to) && !s.utf8:
		return s.refuse("553 5.6.7 this address needs SMTPUTF8")
	case len(s.to) == maxTo:
		return s.say("452 4.5.3 too many recipients")
	}
	s.to = append(s.to, to)
	return s.say("250 2.1.5 accepted")
}

// split reads what follows `MAIL FROM:` or `RCPT TO:`: a path in angle brackets, then parameters. Routes before an address, which nobody
// sends any more, are refused.
func (s *session) split(text string) (address string, parameters []string, valid bool) {
	if s.Bare && !strings.HasPrefix(text, "<") {
		path, rest, _ := strings.Cut(text, " ")
		text = strings.TrimSpace("<" + path + "> " + rest)
	}
	match := argumentForm.FindStringSubmatch(text)
	if !utf8.ValidString(text) || match == nil {
		return "", nil, false
	}
	local, domain := match[1], match[2]
	if local == "" {
		return "", strings.Fields(match[3]), true
	}
	if len(local) > 64 || len(domain) > 255 || len(local)+len(domain)+len("<@>") > 256 || !isHost(domain) {
		return "", nil, false
	}
	return local + "@" + domain, strings.Fields(match[3]), true
}

func cutFold(text, prefix string) (rest string, ok bool) {
	if len(text) < len(prefix) || !strings.EqualFold(text[:len(prefix)], prefix) {
		return "", false
	}
	return text[len(prefix):], true
}

func (s *session) data(string) bool {
	if len(s.to) == 0 {
		return s.refuse("503 5.5.1 RCPT comes first")
	}
	if !s.say("354 go on") {
		return false
	}
	content, reply, open, err := s.readContent()
	if err != nil {
		return false
	}
	from, to := s.from, s.to
	s.transaction = transaction{}
	if reply != "" {
		return s.refuse(reply) && open
	}
	email, err := parse(bytes.NewReader(content))
	if err != nil {
		return s.refuse("554 5.6.0 cannot parse this email")
	}
	email.From, email.To, email.TLS, email.At = from, to, s.overTLS, time.Now()
	if s.Now != nil {
		email.At = s.Now()
	}
	if s.Reply != nil {
		if reply := s.Reply("."); reply != "" {
			return s.say(reply)
		}
	}
	s.add(email)
	if s.OnEmail != nil {
		s.OnEmail(email)
	}
	return s.say("250 2.0.0 taken")
}
