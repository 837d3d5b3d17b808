// A plain hand-written consumer of the events: franz-go, sonic, ch-go's columns; at least once, no deduplication.
// It reads each partition from its beginning to the end that it had at the start, inserts blocks of rows, and commits after
// each insert.
package main

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"time"

	"github.com/ClickHouse/ch-go/proto"
	"github.com/bytedance/sonic"
	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"forebay.bench/peers/internal/native"
	"forebay.bench/peers/internal/run"
)

type event struct {
	EventID   string `json:"event_id"`
	UserID    string `json:"user_id"`
	Name      string `json:"name"`
	Email     string `json:"email"`
	CreatedAt string `json:"created_at"`
}

type table struct {
	eventID, userID proto.ColUUID
	createdAt       proto.ColDateTime
	name, email     proto.ColStr
	rows            int
}

func (t *table) add(record []byte) error {
	var e event
	if err := sonic.Unmarshal(record, &e); err != nil {
		return err
	}
	eventID, err := uuid.Parse(e.EventID)
	if err != nil {
		return err
	}
	userID, err := uuid.Parse(e.UserID)
	if err != nil {
		return err
	}
	at, err := time.ParseInLocation(time.DateTime, e.CreatedAt, time.UTC)
	if err != nil {
		return err
	}
	t.eventID.Append(eventID)
	t.userID.Append(userID)
	t.createdAt.Append(at)
	t.name.Append(e.Name)
	t.email.Append(e.Email)
	t.rows++
	return nil
}

func (t *table) input() []proto.InputColumn {
	return []proto.InputColumn{
		{Name: "event_id", Data: &t.eventID},
		{Name: "user_id", Data: &t.userID},
		{Name: "created_at", Data: &t.createdAt},
		{Name: "user_name", Data: &t.name},
		{Name: "user_email", Data: &t.email},
	}
}

func (t *table) reset() {
	t.eventID.Reset()
	t.userID.Reset()
	t.createdAt.Reset()
	t.name.Reset()
	t.email.Reset()
	t.rows = 0
}

func main() {
	brokers := flag.String("brokers", "", "host:port, several joined by commas")
	topic := flag.String("topic", "", "the topic")
	group := flag.String("group", "", "the consumer group")
	server := flag.String("url", "", "ClickHouse")
	into := flag.String("table", "", "the table")
	block := flag.Int("block", 100_000, "rows of an insert")
	flag.Parse()
	run.Fail(drain(*brokers, *topic, *group, *server, *into, *block))
}

func drain(brokers, topic, group, server, into string, block int) error {
	ctx := context.Background()
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(brokers, ",")...),
		kgo.ConsumeTopics(topic),
		kgo.ConsumerGroup(group),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		kgo.FetchMaxPartitionBytes(8<<20),
	)
	if err != nil {
		return err
	}
	defer client.Close()
	left, err := toRead(ctx, client, topic)
	if err != nil {
		return err
	}
	sender := native.New(server, into, "event_id, user_id, created_at, user_name, user_email", true)
	var rows table
	flush := func() error {
		if rows.rows == 0 {
			return nil
		}
		if err := sender.Send(rows.input(), rows.rows); err != nil {
			return err
		}
		rows.reset()
		return client.CommitUncommittedOffsets(ctx)
	}
	for left > 0 {
		fetches := client.PollFetches(ctx)
		if failed := fetches.Errors(); len(failed) > 0 {
			return fmt.Errorf("partition %d: %w", failed[0].Partition, failed[0].Err)
		}
		var bad error
		fetches.EachRecord(func(record *kgo.Record) {
			if bad == nil {
				bad = rows.add(record.Value)
				left--
			}
		})
		if bad != nil {
			return bad
		}
		if rows.rows >= block {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}

// toRead counts the records of the topic: the ends of its partitions, of which nothing was deleted.
func toRead(ctx context.Context, client *kgo.Client, topic string) (int64, error) {
	ask := kmsg.NewPtrMetadataRequest()
	one := kmsg.NewMetadataRequestTopic()
	one.Topic = kmsg.StringPtr(topic)
	ask.Topics = append(ask.Topics, one)
	metadata, err := ask.RequestWith(ctx, client)
	if err != nil {
		return 0, err
	}
	ends := kmsg.NewPtrListOffsetsRequest()
	ends.ReplicaID = -1
	of := kmsg.NewListOffsetsRequestTopic()
	of.Topic = topic
	for _, known := range metadata.Topics {
		for _, partition := range known.Partitions {
			end := kmsg.NewListOffsetsRequestTopicPartition()
			end.Partition, end.Timestamp = partition.Partition, -1
			of.Partitions = append(of.Partitions, end)
		}
	}
	ends.Topics = append(ends.Topics, of)
	total := int64(0)
	for _, shard := range client.RequestSharded(ctx, ends) {
		if shard.Err != nil {
			return 0, shard.Err
		}
		for _, answered := range shard.Resp.(*kmsg.ListOffsetsResponse).Topics {
			for _, partition := range answered.Partitions {
				if partition.ErrorCode != 0 {
					return 0, fmt.Errorf("partition %d: code %d", partition.Partition, partition.ErrorCode)
				}
				total += partition.Offset
			}
		}
	}
	return total, nil
}
