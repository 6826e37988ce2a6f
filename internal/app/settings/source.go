package settings

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/postgres"
	"github.com/alecthomas/kong"
)

// Problems are all settings that cannot be used, and lines of the settings file. Each is a line of its own.
type Problems []error

func (p Problems) Error() string {
	return strings.Join(postgres.Map(p, error.Error), "; ")
}

// Source is where the settings of one command line come from: the command line first, then the environment, then the file of
// --config. It collects problems instead of stopping at the first one.
type Source struct {
	environ, file map[string]string // by variable
	known         map[string]bool   // variables that are settings: whether nothing is a value of theirs
	Problems      Problems

	values   map[string]string // of the settings that the command line does not name, by variable
	again    map[string]bool   // variables of the settings that a reload takes over
	secrets  map[string]string // what files of secrets hold, by the flag of the secret
	given    map[string]bool   // flags of secrets that the command line names
	resolved map[string]bool   // flags that it does not name
}

// New returns a source with the environment, entries such as CONNECT_LISTEN=:8443.
func New(environ []string) *Source {
	s := &Source{
		environ: map[string]string{}, known: map[string]bool{}, values: map[string]string{}, again: map[string]bool{},
		secrets: map[string]string{}, given: map[string]bool{}, resolved: map[string]bool{},
	}
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		s.environ[name] = value
	}
	return s
}

// resolve finds the value of a setting that the command line does not name. One that is set to nothing counts as not set, unless
// [CanBeNothing]. A file with a secret is declared before the secret, so that it has been read by now.
func (s *Source) resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	if !flag.Tag.Has("setting") {
		return nil, nil
	}
	s.resolved[flag.Name] = true
	name := Variable(flag.Name)
	value, set := s.environ[name]
	if !set || value == "" && !CanBeNothing(flag) {
		value, set = s.file[name]
	}
	if secret, ok := s.secrets[flag.Name]; ok {
		if value != "" {
			s.twice(flag.Name)
		}
		value = secret
	}
	s.again[name] = flag.Tag.Has("again")
	if value == "" && flag.HasDefault && (!set || !CanBeNothing(flag)) {
		s.values[name] = flag.Default
		return nil, nil
	}
	s.values[name] = value
	return value, nil // "" as well, so that the setting's type can refuse it
}

func (s *Source) twice(flag string) {
	s.Problems = append(s.Problems, Refuse(flag, "is set, and so is "+Variable(flag)+"_FILE", "one of the two"))
}

// Refused tells whether a setting is among the problems.
func (s *Source) Refused(flag string) bool {
	return slices.ContainsFunc(s.Problems, func(problem error) bool { return Refuses(problem, flag) })
}

// decode reads a setting and notes what is wrong with it.
func (s *Source) decode(t Type, ctx *kong.DecodeContext, target reflect.Value) error {
	flag := ctx.Value.Name
	if _, fromFile := s.secrets[flag]; fromFile && !s.resolved[flag] {
		s.twice(flag)
	}
	s.given[flag] = !s.resolved[flag]
	var text string
	if err := ctx.Scan.PopValueInto("value", &text); err != nil {
		return err
	}
	value, problem := t.read(ctx.Value, text)
	if secret, fromFile := s.secrets[flag]; problem != nil && (!fromFile || secret != "") { // otherwise the problem of the file was reported
		s.Problems = append(s.Problems, problem)
	}
	if value == nil {
		target.SetZero()
	} else {
		target.Set(reflect.ValueOf(value))
	}
	return nil
}

// maxSecret is far above what any setting may have.
const maxSecret = 64 << 10

// decodeSecretFile reads a setting that names a file with another setting in it.
func (s *Source) decodeSecretFile(ctx *kong.DecodeContext, target reflect.Value) error {
	var path string
	if err := ctx.Scan.PopValueInto("value", &path); err != nil || path == "" {
		return err
	}
	target.SetString(path)
	flag := strings.TrimSuffix(ctx.Value.Name, "-file")
	if s.given[flag] {
		s.twice(flag)
	}
	text, err := readText(path, maxSecret)
	text = strings.TrimRight(text, "\r\n")
	if err == nil && text == "" {
		err = errors.New("is empty")
	}
	if err != nil {
		text = ""
		s.Problems = append(s.Problems, Refuse(ctx.Value.Name, err.Error(), "a file with "+Variable(flag)+" in it and nothing else"))
	}
	s.secrets[flag] = text
	return nil
}

// readText reads a file in UTF-8, with a byte order mark or without.
func readText(path string, maxBytes int64) (string, error) {
	content, err := credential.ReadSecretFile(path, maxBytes)
	text := strings.TrimPrefix(string(content), "\ufeff")
	switch {
	case err != nil:
	case strings.Contains(text, "\x00"):
		err = errors.New("must be UTF-8, not UTF-16")
	case !utf8.ValidString(text):
		err = errors.New("must be UTF-8")
	}
	return text, err
}

// decodeSettingsFile reads --config.
func (s *Source) decodeSettingsFile(ctx *kong.DecodeContext, target reflect.Value) error {
	var path string
	if err := ctx.Scan.PopValueInto("file", &path); err != nil {
		return err
	}
	target.SetString(path)
	content, err := readText(path, 1<<20)
	if err != nil {
		return err
	}
	s.file = map[string]string{}
	number := 0
	for line := range strings.Lines(content) {
		number++
		if problem := s.readLine(strings.TrimSpace(line)); problem != "" {
			s.Problems = append(s.Problems, fmt.Errorf("%s:%d: %s", path, number, problem))
		}
	}
	return nil
}

// readLine reads a line of the settings file and returns what is wrong with it, which never holds a value.
func (s *Source) readLine(line string) (problem string) {
	if line == "" || strings.HasPrefix(line, "#") {
		return ""
	}
	name, value, ok := strings.Cut(line, "=")
	name, value = strings.TrimSpace(name), strings.TrimSpace(value)
	_, known := s.known[name]
	_, again := s.file[name]
	switch {
	case !ok || !isVariable.MatchString(name): // it may be a piece of a secret
		return "is not of the form CONNECT_NAME=value"
	case !known:
		return fmt.Sprintf("%q is not a setting", name)
	case again:
		return name + " is set a second time"
	case len(value) > 1 && strings.ContainsRune(`"'`, rune(value[0])) && value[len(value)-1] == value[0]:
		return name + " is in quotes, which would be a part of it: leave them out"
	}
	s.file[name] = value
	return ""
}

var isVariable = regexp.MustCompile(`^CONNECT_[A-Z0-9_]+$`)

// NeedRestart returns the variables of the settings that differ from those of the start, and that a reload does not take over.
func (s *Source) NeedRestart(start *Source) (names []string) {
	for name, value := range s.values {
		if !s.again[name] && value != start.values[name] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Unknown returns the variables of the environment that look like settings but do not name one. A misspelt one has no effect.
func (s *Source) Unknown() (names []string) {
	for _, name := range slices.Sorted(maps.Keys(s.environ)) {
		if _, known := s.known[name]; strings.HasPrefix(name, "CONNECT_") && !known {
			names = append(names, name)
		}
	}
	return names
}

// Fixed returns the variables of the environment that are settings: while a process runs, they do not change. Files that they name can.
func (s *Source) Fixed() (names []string) {
	for _, name := range slices.Sorted(maps.Keys(s.environ)) {
		canBeNothing, known := s.known[name]
		if known && (s.environ[name] != "" || canBeNothing) && !strings.HasSuffix(name, "_FILE") {
			names = append(names, name)
		}
	}
	return names
}

// Options make kong fill in the settings.
func (s *Source) Options() []kong.Option {
	options := []kong.Option{
		kong.Resolvers(kong.ResolverFunc(s.resolve)),
		kong.Bind(s),
		kong.PostBuild(func(k *kong.Kong) error { // makes the settings of all commands known to a settings file
			for _, command := range k.Model.Leaves(false) {
				for _, setting := range Of(command) {
					s.known[Variable(setting.Name)] = CanBeNothing(setting)
				}
			}
			return nil
		}),
		kong.NamedMapper("secret file", kong.MapperFunc(s.decodeSecretFile)),
		kong.NamedMapper("settings file", kong.MapperFunc(s.decodeSettingsFile)),
	}
	for name, kind := range types {
		options = append(options, kong.NamedMapper(name, kong.MapperFunc(func(ctx *kong.DecodeContext, target reflect.Value) error {
			return s.decode(kind, ctx, target)
		})))
	}
	return options
}

// Of are the settings of a command.
func Of(command *kong.Node) []*kong.Flag {
	return slices.DeleteFunc(slices.Concat(command.AllFlags(false)...), func(flag *kong.Flag) bool { return !flag.Tag.Has("setting") })
}

// Table describes the settings of a command, a line each, and hides them from its flags. It is empty if there are none.
func Table(command *kong.Node) string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for _, flag := range Of(command) {
		flag.Hidden = true // in the list of flags
		value := "=" + flag.Default
		if !flag.HasDefault {
			value = " " + flag.PlaceHolder
		}
		fmt.Fprintf(w, "    --%s%s\t%s\t%s\n", flag.Name, value, Variable(flag.Name), flag.Help)
	}
	_ = w.Flush() // to memory
	return text.String()
}

var (
	errPassword = errors.New("has a user or password that is not percent-encoded: @ is %40, / is %2F, # is %23, ? is %3F, % is %25, and a space %20")

	// queryValues are what may hold an @ in a URL behind its host.
	queryValues = regexp.MustCompile(`=[^&#]*`)
	// plainUserinfo has the characters of RFC 3986, section 3.2.1, and the @ of a user who is named by an address.
	plainUserinfo = regexp.MustCompile(`^([A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})*$`)
)

// ofServer is the parse of a URL of a server, with a user and a password or without. A password that is not percent-encoded ends at the wrong
// place: its rest would be taken for a host or a path, and printed, so it is refused, even if a parser would guess what is meant.
func ofServer(check func(string) error) func(string) (any, error) {
	return func(s string) (any, error) {
		_, rest, _ := strings.Cut(s, "://")
		authority, tail := rest, ""
		if end := strings.IndexAny(rest, "/?#"); end >= 0 {
			authority, tail = rest[:end], rest[end:]
		}
		userinfo := authority[:max(0, strings.LastIndex(authority, "@"))]
		_, password, _ := strings.Cut(userinfo, ":")
		err := check(s)
		switch {
		case strings.Contains(password, "@"),
			strings.Contains(queryValues.ReplaceAllString(tail, ""), "@"),
			err != nil && (!plainUserinfo.MatchString(userinfo) || strings.Contains(userinfo, "@")):
			return nil, errPassword
		}
		return s, err
	}
}
