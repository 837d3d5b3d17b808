package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"

	"github.com/ClickHouse/ch-go/compress"
	"github.com/ClickHouse/ch-go/proto"
	"github.com/ClickHouse/clickhouse-go/v2"
)

// answers rewrites what the server says, never what it is sent: clickhouse-go asks by `client_protocol_version` for blocks as the
// native protocol has them, and a server that is the engine as a library gives those of `FORMAT Native`, which lack the fields of
// later versions. They are added here. The answers are the server's greeting and the table's columns; inserts have none.
type answers struct{ next http.RoundTripper }

// answerBytesMax bounds an answer: the columns of a wide table are a tenth of it.
const answerBytesMax = 4 << 20

func (a answers) RoundTrip(request *http.Request) (*http.Response, error) {
	answer, err := a.next.RoundTrip(request)
	if err != nil || answer.StatusCode != http.StatusOK {
		return answer, err
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, answerBytesMax))
	if err != nil {
		return nil, err
	}
	if err := answer.Body.Close(); err != nil {
		return nil, err
	}
	if len(body) > 0 {
		packed := request.URL.Query().Get("compress") == "1"
		if body, err = later(body, packed); err != nil {
			return nil, err
		}
	}
	answer.Body = io.NopCloser(bytes.NewReader(body))
	answer.ContentLength = int64(len(body))
	answer.Header.Del("Content-Length")
	return answer, nil
}

func later(body []byte, packed bool) ([]byte, error) {
	var reader io.Reader = bytes.NewReader(body)
	if packed {
		reader = compress.NewReader(reader)
	}
	var results proto.Results
	var block proto.Block
	if err := block.DecodeRawBlock(proto.NewReader(reader), 0, results.Auto()); err != nil {
		return nil, err
	}
	var input []proto.InputColumn
	for _, column := range results {
		data, ok := column.Data.(proto.ColInput)
		if !ok {
			return nil, fmt.Errorf("column %s cannot be written", column.Name)
		}
		input = append(input, proto.InputColumn{Name: column.Name, Data: data})
	}
	var buffer proto.Buffer
	if err := block.EncodeBlock(&buffer, clickhouse.ClientTCPProtocolVersion, input); err != nil || !packed {
		return buffer.Buf, err
	}
	writer := compress.NewWriter(compress.LevelZero, compress.LZ4)
	err := writer.Compress(buffer.Buf)
	return writer.Data, err
}
