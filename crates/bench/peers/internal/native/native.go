// Package native sends blocks that ch-go encoded. ch-go itself speaks ClickHouse's native protocol only; where the server has
// no native port its columns, its block encoder and its compression are used, and Go's own HTTP client carries the bytes.
package native

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"

	"github.com/ClickHouse/ch-go/compress"
	"github.com/ClickHouse/ch-go/proto"
)

// Sender reuses its buffers from block to block.
type Sender struct {
	url    string
	sent   int
	buffer proto.Buffer
	packed *compress.Writer
	out    []byte
}

// chunk is the size of a compressed block before compression, as the server itself writes them.
const chunk = 1 << 20

// New is a sender into a table.
func New(server, table, columns string, compressed bool) *Sender {
	settings := url.Values{
		"query":                       {fmt.Sprintf("INSERT INTO %s (%s) FORMAT Native", table, columns)},
		"async_insert":                {"0"},
		"wait_end_of_query":           {"1"},
		"max_insert_block_size":       {"10000000"},
		"min_insert_block_size_rows":  {"0"},
		"min_insert_block_size_bytes": {"0"},
	}
	sender := &Sender{}
	if compressed {
		settings.Set("decompress", "1")
		sender.packed = compress.NewWriter(compress.LevelZero, compress.LZ4)
	}
	sender.url = server + "/?" + settings.Encode()
	return sender
}

// Send encodes the columns as one block and waits for the answer.
func (s *Sender) Send(input []proto.InputColumn, rows int) error {
	s.buffer.Reset()
	block := proto.Block{Columns: len(input), Rows: rows}
	// Version 0 has no additions of later protocols, as `FORMAT Native` wants it.
	if err := block.EncodeRawBlock(&s.buffer, 0, input); err != nil {
		return err
	}
	body := s.buffer.Buf
	if s.packed != nil {
		s.out = s.out[:0]
		for rest := s.buffer.Buf; len(rest) > 0; {
			part := rest[:min(chunk, len(rest))]
			rest = rest[len(part):]
			if err := s.packed.Compress(part); err != nil {
				return err
			}
			s.out = append(s.out, s.packed.Data...)
		}
		body = s.out
	}
	// A table that remembers inserts would take the same block for one that it has.
	s.sent++
	token := fmt.Sprintf("&insert_deduplication_token=peer-%d-%d", os.Getpid(), s.sent)
	answer, err := http.Post(s.url+token, "application/octet-stream", bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	said, err := io.ReadAll(io.LimitReader(answer.Body, 1<<16))
	if err != nil {
		return err
	}
	if code := answer.Header.Get("X-ClickHouse-Exception-Code"); answer.StatusCode != 200 || code != "" {
		return fmt.Errorf("status %d, code `%s`: %s", answer.StatusCode, code, said)
	}
	return nil
}
