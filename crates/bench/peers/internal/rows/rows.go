// Package rows reads the file of rows that every client sends: see bench/clients/rows.rs for its bytes.
package rows

import (
	"encoding/binary"
	"fmt"
	"os"
)

// Kind is a column's type.
type Kind int

// Text has a fixed width of its column; the numbers have their own.
const (
	Text Kind = iota
	Int32
	Int64
)

// Column is one of the 32.
type Column struct {
	Name  string
	Kind  Kind
	Width int
	Texts []string
	I32   []int32
	I64   []int64
}

func text(name string, width int) Column { return Column{Name: name, Kind: Text, Width: width} }

func columns() []Column {
	all := []Column{
		text("ccollectorip", 13), text("cdevip", 13), text("cdevtype", 9), text("cdstip", 12), text("ceventmsg", 650),
		text("ceventname", 16), text("ceventtype", 12), text("cflowdir", 1), text("cobject", 12), text("coperation", 7),
		text("csrcip", 11), text("csrclogtype", 18), text("logtype_tag", 3), text("manufacturer", 9), text("reason", 7),
	}
	for _, name := range []string{
		"iappprotocol", "icollecttype", "idstport", "ieventlevel", "imergecount", "iprotocol", "isrcport",
	} {
		all = append(all, Column{Name: name, Kind: Int32, Width: 4})
	}
	for _, name := range []string{
		"lduration", "lrecivepack", "lsendpack", "request_body_len", "response_body_len", "lendtime", "lid",
		"loccurtime", "lrecepttime", "lstartime",
	} {
		all = append(all, Column{Name: name, Kind: Int64, Width: 8})
	}
	return all
}

// Read gives the columns and the number of rows.
func Read(path string) ([]Column, int, error) {
	bytes, err := os.ReadFile(path)
	if err != nil {
		return nil, 0, err
	}
	all := columns()
	width := 0
	for _, column := range all {
		width += column.Width
	}
	if len(bytes) < 8 {
		return nil, 0, fmt.Errorf("`%s` has no head", path)
	}
	count, rest := int(binary.LittleEndian.Uint64(bytes)), bytes[8:]
	if count < 0 || count > len(rest) || count*width != len(rest) {
		return nil, 0, fmt.Errorf("`%s` has %d bytes for %d rows", path, len(rest), count)
	}
	for n := range all {
		column := &all[n]
		values := rest[:count*column.Width]
		rest = rest[count*column.Width:]
		for row := range count {
			value := values[row*column.Width : (row+1)*column.Width]
			switch column.Kind {
			case Text:
				column.Texts = append(column.Texts, string(value))
			case Int32:
				column.I32 = append(column.I32, int32(binary.LittleEndian.Uint32(value)))
			case Int64:
				column.I64 = append(column.I64, int64(binary.LittleEndian.Uint64(value)))
			}
		}
	}
	return all, count, nil
}

// Names lists the columns for a statement.
func Names(all []Column) string {
	names := ""
	for n, column := range all {
		if n > 0 {
			names += ", "
		}
		names += column.Name
	}
	return names
}
