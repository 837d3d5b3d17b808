// Sends wide rows with ch-go's columns.
package main

import (
	"github.com/ClickHouse/ch-go/proto"

	"forebay.bench/peers/internal/native"
	"forebay.bench/peers/internal/rows"
	"forebay.bench/peers/internal/run"
)

func main() {
	order := run.Parse()
	columns, count, err := rows.Read(order.Rows)
	run.Fail(err)
	var input []proto.InputColumn
	for _, column := range columns {
		switch column.Kind {
		case rows.Text:
			data := new(proto.ColStr)
			data.AppendArr(column.Texts)
			input = append(input, proto.InputColumn{Name: column.Name, Data: data})
		case rows.Int32:
			data := proto.ColInt32(column.I32)
			input = append(input, proto.InputColumn{Name: column.Name, Data: &data})
		case rows.Int64:
			data := proto.ColInt64(column.I64)
			input = append(input, proto.InputColumn{Name: column.Name, Data: &data})
		}
	}
	sender := native.New(order.URL, order.Table, rows.Names(columns), order.Compressed)
	run.Fail(run.Measure(order, count, func(int) error { return sender.Send(input, count) }))
}
