package schema

import "slices"

func (m migration) check(earlier history) (wrong []string) {
	refuse := func(reason string) { wrong = append(wrong, reason) }
	if !m.transaction {
		if slices.ContainsFunc(m.statements, func(s statement) bool { return s.kind == "AlterTableStmt" }) {
			return m.checkTables(earlier)
		}
		return m.checkIndexes()
	}
	altered := map[string]bool{}
	validates := func(c command) bool { return c.Subtype == "AT_ValidateConstraint" }
	for _, s := range m.statements {
		old := earlier.tables[s.Relation.Name]
		switch s.kind {
		case "CreateStmt", "CreateDomainStmt", "CreateFunctionStmt", "CreateEnumStmt", "CreateSeqStmt", "ViewStmt", "CommentStmt",
			"InsertStmt", "RawStmt":
		case "IndexStmt":
			if s.Concurrent {
				refuse("create index concurrently: needs a migration with -- +goose NO TRANSACTION")
			} else if old {
				refuse("create index on " + s.Relation.Name + ": nobody writes meanwhile; create it concurrently")
			}
		case "AlterTableStmt":
			if !old {
				continue
			}
			if altered[s.Relation.Name] = true; len(altered) == 2 {
				refuse("alter table " + s.Relation.Name + ": a request that holds this table and wants the one before would be ended " +
					"by the deadlock; give each table a migration of its own")
			}
			for _, c := range s.commands() {
				if reason := earlier.checkCommand(s.Relation.Name, c, m.breaks()); reason != "" {
					refuse("alter table " + s.Relation.Name + ": " + reason)
				}
				if validates(c) && (len(m.statements) > 1 || len(s.commands()) > 1) {
					refuse("alter table " + s.Relation.Name + ": validate constraint reads the table under the locks of the other " +
						"statements; give it a migration of its own")
				}
			}
		case "UpdateStmt", "DeleteStmt":
			if old && s.Where == nil {
				refuse(s.kind + " of all rows of " + s.Relation.Name + ": the rows stay locked until the end; let the program do it in batches")
			}
		case "GrantStmt":
			if !s.IsGrant {
				refuse("revoke: older programs may need the right")
			}
		case "RenameStmt", "DropStmt":
			if !m.breaks() {
				refuse(s.kind + ": older programs may use it; replace connect_oldest_program() in the same migration")
			}
		default:
			refuse(s.kind + ": not known to be harmless")
		}
	}
	return wrong
}

// checkTables is for changes of tables outside a transaction: each is one of its own. If the lock of a table is not to be had, all of them run
// again.
func (m migration) checkTables(earlier history) (wrong []string) {
	dropped := map[string]bool{}
	for _, s := range m.statements {
		refuse := func(reason string) { wrong = append(wrong, s.kind+" "+s.Relation.Name+": "+reason) }
		if s.kind != "AlterTableStmt" {
			refuse("without a transaction tables are changed, or indexes built, and nothing else is done")
		}
		for _, c := range s.commands() {
			if reason := earlier.checkCommand(s.Relation.Name, c, m.breaks()); reason != "" {
				refuse(reason)
			}
			switch c.Subtype {
			case "AT_ValidateConstraint":
				if len(s.commands()) > 1 {
					refuse("validate constraint reads the table under the locks of the other changes; give it a statement of its own")
				}
			case "AT_DropConstraint":
				dropped[s.Relation.Name+" "+c.Name] = true
				fallthrough
			case "AT_AddColumn":
				if !c.MissingOK {
					refuse("runs again where it has run before; say if exists, or if not exists")
				}
			case "AT_AddConstraint":
				if !dropped[s.Relation.Name+" "+c.Def.Constraint.Name] {
					refuse("add constraint runs again where it has run before; drop it in a statement before, if it exists")
				}
			}
		}
	}
	return wrong
}

// checkIndexes is for indexes that are built outside a transaction. It may stop after any of them, and is then run again from the first one.
func (m migration) checkIndexes() (wrong []string) {
	const patient = "lock_timeout"
	steps := m.statements
	if n := len(steps); n < 3 || steps[0].kind != "VariableSetStmt" || steps[0].Name != patient ||
		steps[n-1].kind != "VariableSetStmt" || steps[n-1].Name != patient {
		return []string{"NO TRANSACTION: begins with set lock_timeout = 0, because building an index concurrently waits for others " +
			"and they do not wait for it, and ends with reset lock_timeout"}
	}
	steps = steps[1 : len(steps)-1]
	var dropped []string
	for _, s := range steps {
		switch {
		case s.kind == "DropStmt" && s.RemoveType == "OBJECT_INDEX" && s.Concurrent && s.MissingOK:
			dropped = append(dropped, s.dropped()...)
		case s.kind != "IndexStmt" || !s.Concurrent:
			wrong = append(wrong, s.kind+": without a transaction indexes are dropped and created concurrently, and nothing else is done")
		case s.IfNot || !slices.Contains(dropped, s.Index):
			wrong = append(wrong, "create index concurrently "+s.Index+": what failed half-way leaves an index that is not valid; "+
				"drop it before, concurrently and if it exists")
		}
	}
	return wrong
}

// checkCommand says what is wrong with a change of a table that an earlier migration made.
func (h history) checkCommand(table string, c command, breaks bool) string {
	switch c.Subtype {
	case "AT_ColumnDefault", "AT_DropNotNull", "AT_SetStatistics", "AT_SetOptions", "AT_ResetOptions", "AT_SetStorage",
		"AT_SetCompression", "AT_SetRelOptions", "AT_ResetRelOptions", "AT_DropConstraint", "AT_ValidateConstraint":
		return ""
	case "AT_AddColumn":
		return h.checkColumn(*c.Def)
	case "AT_DropColumn":
		if !breaks {
			return "drop column: older programs may use it; replace connect_oldest_program() in the same migration"
		}
		return ""
	case "AT_AddConstraint":
		switch constraint := c.Def.Constraint; {
		case constraint.NotValid:
		case constraint.Type == "CONSTR_CHECK", constraint.Type == "CONSTR_FOREIGN":
			return "add constraint: reads the whole table; add it not valid, and validate it in a later migration"
		case constraint.Index == "":
			return "add constraint: builds an index; build it concurrently, and add the constraint using it"
		}
		return ""
	case "AT_SetNotNull":
		if !h.validated[table+" "+c.Name] {
			return "set not null: reads the whole table; validate a check (" + c.Name + " is not null) in an earlier migration"
		}
		return ""
	}
	return c.Subtype + ": rewrites the table, or is not known to be harmless"
}

func (h history) checkColumn(column node) string {
	name := last(column.ColumnDef.TypeName.Names)
	if h.domains[name] || slices.Contains([]string{"serial", "bigserial", "smallserial"}, name) {
		return "add column: a column of type " + name + " rewrites the table"
	}
	needsDefault, hasDefault := false, false
	for _, n := range column.ColumnDef.Constraints {
		switch constraint := n.Constraint; constraint.Type {
		case "CONSTR_NULL":
		case "CONSTR_NOTNULL":
			needsDefault = true
		case "CONSTR_DEFAULT":
			hasDefault = true
			value := constraint.Expression
			if value.TypeCast != nil {
				value = &value.TypeCast.Arg
			}
			if value.Constant == nil {
				return "add column: a default that is not a constant may rewrite the table"
			}
		default:
			return "add column: " + constraint.Type + " reads or rewrites the table; add the constraint by itself"
		}
	}
	if needsDefault && !hasDefault {
		return "add column: the rows that are there need a default"
	}
	return ""
}
