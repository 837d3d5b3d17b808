// Sends wide rows with clickhouse-go's column API, over its HTTP protocol.
package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"

	"github.com/ClickHouse/clickhouse-go/v2"

	"forebay.bench/peers/internal/rows"
	"forebay.bench/peers/internal/run"
)

func main() {
	order := run.Parse()
	columns, count, err := rows.Read(order.Rows)
	run.Fail(err)
	server, err := url.Parse(order.URL)
	run.Fail(err)
	options := &clickhouse.Options{
		Protocol: clickhouse.HTTP,
		Addr:     []string{server.Host},
		TransportFunc: func(next *http.Transport) (http.RoundTripper, error) {
			return answers{next}, nil
		},
		Settings: clickhouse.Settings{"async_insert": 0, "wait_end_of_query": 1},
	}
	if order.Compressed {
		options.Compression = &clickhouse.Compression{Method: clickhouse.CompressionLZ4}
	}
	connection, err := clickhouse.Open(options)
	run.Fail(err)
	ctx := context.Background()
	insert := fmt.Sprintf("INSERT INTO %s (%s)", order.Table, rows.Names(columns))
	run.Fail(run.Measure(order, count, func(number int) error {
		// A table that remembers inserts would take the same block for one that it has.
		token := clickhouse.Settings{"insert_deduplication_token": fmt.Sprintf("peer-%d-%d", os.Getpid(), number)}
		batch, err := connection.PrepareBatch(clickhouse.Context(ctx, clickhouse.WithSettings(token)), insert)
		if err != nil {
			return err
		}
		for n, column := range columns {
			switch column.Kind {
			case rows.Text:
				err = batch.Column(n).Append(column.Texts)
			case rows.Int32:
				err = batch.Column(n).Append(column.I32)
			case rows.Int64:
				err = batch.Column(n).Append(column.I64)
			}
			if err != nil {
				return fmt.Errorf("column %s: %w", column.Name, err)
			}
		}
		return batch.Send()
	}))
}
