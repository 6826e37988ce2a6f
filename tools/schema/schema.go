// Package schema finds what must not be in a migration once servers run on a large database: statements that keep a table
// locked while they read or rewrite it, and those that take away what older programs use without saying so.
//
// A migration may do anything with a table that it creates itself. With tables of earlier migrations it may do what is known
// to be harmless; whatever is not known to be that is refused.
package schema

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/wasilibs/go-pgquery/parser"
)

// Check reads migrations in goose's format, oldest first, and returns what is wrong with the way up of each, by its index.
// The way back is for servers that have gone back before.
func Check(migrations []string) (map[int][]string, error) {
	found := map[int][]string{}
	earlier := history{tables: map[string]bool{}, domains: map[string]bool{}, notNull: map[string]string{}, validated: map[string]bool{}}
	for i, text := range migrations {
		m, err := read(text)
		if err != nil {
			return nil, fmt.Errorf("migration %d: %w", i+1, err)
		}
		if wrong := m.check(earlier); len(wrong) > 0 {
			found[i] = wrong
		}
		earlier.add(m)
	}
	return found, nil
}

type history struct {
	tables, domains map[string]bool
	notNull         map[string]string // table and constraint, to table and column of its check that this is not null
	validated       map[string]bool   // table and column of which such a check holds for all rows
}

func (h history) add(m migration) {
	for _, s := range m.statements {
		switch s.kind {
		case "CreateStmt":
			h.tables[s.Relation.Name] = true
		case "CreateDomainStmt":
			h.domains[last(s.Domain)] = true
		}
		for _, c := range s.commands() {
			switch c.Subtype {
			case "AT_AddConstraint":
				constraint := c.Def.Constraint
				if e := constraint.Expression; e != nil && e.NullTest != nil && e.NullTest.Type == "IS_NOT_NULL" {
					h.notNull[s.Relation.Name+" "+constraint.Name] = s.Relation.Name + " " + last(e.NullTest.Arg.ColumnRef.Fields)
				}
			case "AT_ValidateConstraint":
				h.validated[h.notNull[s.Relation.Name+" "+c.Name]] = true
			}
		}
	}
}

// migration is the way up of one.
type migration struct {
	statements  []statement
	transaction bool
}

var noTransaction = regexp.MustCompile(`(?mi)^--\s*\+goose\s+NO TRANSACTION\s*$`)

func read(text string) (migration, error) {
	_, up, found := strings.Cut(text, "-- +goose Up\n")
	up, _, both := strings.Cut(up, "-- +goose Down\n")
	if !found || !both {
		return migration{}, fmt.Errorf("a migration has a way up, and then one down")
	}
	tree, err := parser.ParseToJSON(up)
	if err != nil {
		return migration{}, err
	}
	var parsed struct {
		Statements []struct {
			Statement map[string]json.RawMessage `json:"stmt"`
		} `json:"stmts"`
	}
	if err := json.Unmarshal([]byte(tree), &parsed); err != nil {
		return migration{}, err
	}
	m := migration{transaction: !noTransaction.MatchString(text)}
	for _, p := range parsed.Statements {
		for kind, fields := range p.Statement { // there is one
			s := statement{kind: kind}
			if err := json.Unmarshal(fields, &s); err != nil {
				return migration{}, fmt.Errorf("%s: %w", kind, err)
			}
			if s.Relation.Name != "goose_db_version" { // where one that is not a transaction says that it has begun
				m.statements = append(m.statements, s)
			}
		}
	}
	return m, nil
}

// statement is one with those parts of PostgreSQL's parse tree that the rules look at.
type statement struct {
	kind       string
	Relation   relation  `json:"relation"`
	Domain     []node    `json:"domainname"`
	Function   []node    `json:"funcname"`
	Commands   []node    `json:"cmds"`
	RemoveType string    `json:"removeType"`
	Concurrent bool      `json:"concurrent"`
	MissingOK  bool      `json:"missing_ok"`
	IfNot      bool      `json:"if_not_exists"`
	IsGrant    bool      `json:"is_grant"` // and not a revoke
	Name       string    `json:"name"`     // of a setting
	Index      string    `json:"idxname"`  // that is created
	Objects    []node    `json:"objects"`  // that are dropped
	Where      *struct{} `json:"whereClause"`
}

type relation struct {
	Name string `json:"relname"`
}

// node is one of those kinds that the rules look at.
type node struct {
	String   struct{ Sval string }
	List     struct{ Items []node }
	Constant *struct{} `json:"A_Const"`
	TypeCast *struct{ Arg node }
	NullTest *struct {
		Arg  node
		Type string `json:"nulltesttype"`
	}
	ColumnRef     struct{ Fields []node }
	AlterTableCmd command
	Constraint    constraint
	ColumnDef     struct {
		TypeName struct {
			Names []node `json:"names"`
		} `json:"typeName"`
		Constraints []node `json:"constraints"`
	}
}

type command struct {
	Subtype   string
	Name      string
	Def       *node
	MissingOK bool `json:"missing_ok"`
}

type constraint struct {
	Type       string `json:"contype"`
	Name       string `json:"conname"`
	NotValid   bool   `json:"skip_validation"`
	Index      string `json:"indexname"` // that it uses
	Expression *node  `json:"raw_expr"`
}

// last is the name without its schema.
func last(name []node) string {
	if len(name) == 0 {
		return ""
	}
	return name[len(name)-1].String.Sval
}

func (s statement) commands() (commands []command) {
	for _, n := range s.Commands {
		commands = append(commands, n.AlterTableCmd)
	}
	return commands
}

func (s statement) dropped() (names []string) {
	for _, object := range s.Objects {
		names = append(names, last(object.List.Items))
	}
	return names
}

// breaks says that the migration records which programs still work on its schema.
func (m migration) breaks() bool {
	return slices.ContainsFunc(m.statements, func(s statement) bool {
		return s.kind == "CreateFunctionStmt" && last(s.Function) == "connect_oldest_program"
	})
}
