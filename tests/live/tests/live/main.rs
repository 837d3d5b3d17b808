//! The rules of the program, each tried on a real Kafka broker and ClickHouse's real engine.
//!
//! | module         | what it tries                                                                     |
//! |----------------|-----------------------------------------------------------------------------------|
//! | [`web_access`] | real input, compared value by value                                               |
//! | [`kill`]       | the events workload under many kills of the program and the server                |
//! | [`deaths`]     | windows and joins under kills of the program, the server and the broker           |
//! | [`faults`]     | faults that were found in other programs, by their numbers                        |
//! | [`lookups`]    | rows of a table and of a file, with kills, and while they are away                |
//! | [`lookups_by_key`] | lookups that ask for keys, of sides that are larger than the memory               |
//! | [`postgres`]   | the same of a PostgreSQL server: all types, an update, away, refused              |
//! | [`inputs`]     | several inputs in one pipeline, with kills, and while one of them is away          |
//! | [`tables`]     | several tables: made, one of them away, dead letters by table                     |
//! | [`joins`]      | a join of two topics, with kills                                                  |
//! | [`windows`]    | windows of all kinds, with kills                                                  |
//! | [`mistakes`]   | what the published pipeline of Pulsar and Flink got wrong                         |
//! | [`nexmark`]    | Nexmark's queries, each compared with a batch reading                             |
//! | [`unnest`]     | records that become several rows, with kills and refused rows                     |
//! | [`created`]    | tables that the file describes, and steps that do not fit them                   |
//! | [`csv`]        | lines of CSV from a topic, and files with headers                                 |
//! | [`registry`]   | Avro records that name their schemas, with a registry                             |
//! | [`otlp`]       | requests of OTLP from topics, into the tables of the collector's exporter         |
//! | [`objects`]    | columns of type JSON: from records, steps and OTLP                                 |
//! | [`keys`]       | keys and nested values that other programs took apart or glued together wrongly    |
//! | [`logs`]       | logs as sources, and the gateway that fills them, with kills of all that take part |
//! | [`logs_s3`]    | the same with the log on S3, lost answers and a second gateway                      |
//! | [`logs_clouds`] | logs on Google's and Microsoft's object storage; on request |
//! | [`gateway_kills`] | gateway, pipelines, ClickHouse and store die at random and together; two gateways of one log |
//! | [`otlp_grpc`]  | the senders of OTLP over gRPC among them                                           |
//! | [`host_logs`]  | files that a gateway follows while they are rotated and it is killed               |
//! | [`poison`]     | records that are not what they should be, and times                               |
//! | [`doubts`]     | inserts in doubt: tails that come late, questions and answers                     |
//! | [`doubts_answered`] | rows that are there in part, or not in a view's target: each answer taken          |
//! | [`problems`]   | what a running program waits for, as states; tokens that are forgotten too soon  |
//! | [`users`]      | rights, policies and quotas of the pipeline's user that change while it runs      |
//! | [`told`]       | what the program says of a run, a check and letters                               |
//! | [`outages`]    | lost answers, servers that refuse, are away, or lost rows                         |
//! | [`s3`]         | the store on S3: slow, lossy, away, refusing                                      |
//! | [`fencing`]    | two owners of one lane, on local disk and on S3                                   |
//! | [`refused`]    | rows that the server turns down, tables that change under a running program       |
//! | [`senders`]    | what other people's clients send to a gateway                                       |
//! | [`otel`]       | OpenTelemetry's SDK sends to a gateway                                            |
//! | [`otel_tls`]   | the same over TLS: tokens, tenants, certificates of clients                       |
//! | [`collector`]  | a collector of OpenTelemetry sends to a gateway; on request                       |
//! | [`stopping`]   | signals and drains                                                                |
//! | [`tls`]        | whom the program trusts, and how it shows who it is                                |
//! | [`topics`]     | topics with gaps, transactions, a new identity, several readers, a dead broker    |
//! | [`pulsar`]     | Pulsar topics, with kills, another ledger, more partitions, a truncated topic      |
//! | [`pulsar_oauth`] | tokens of an issuer, of a few seconds each; an issuer that is away or refuses         |
//! | [`pulsar_tls`] | Pulsar over TLS: whom the program trusts, tokens of a file, clients' certificates     |
//! | [`pulsar_schemas`] | messages that name their schema, which the brokers keep; JSON schemas           |
//! | [`protobuf`]   | records in Protocol Buffers: a registry, topics, logs and requests, Pulsar's schemas |
//! | [`replays`]    | dead letters listed, shown, replayed and deleted                                  |
//! | [`rereads`]    | dead letters of records that are read again, and of names that were another's      |
//! | [`versions`]   | windows for tables that merge rows: results that others replace, and states       |
//! | [`collapsing`] | tables whose rows cancel each other: results that are taken back, and changelogs     |
//! | [`upserts`]    | rows that replace each other by key, with kills                                    |
//! | [`verify`]     | the table compared with the source, and a store that is read as a whole           |
//! | [`glassflow`]  | what GlassFlow's own scenarios assert                                             |
//! | [`glassflow_joins`] | the same of joins, and faults of peers where they concern joins and windows  |
//! | [`bench`]      | the benchmarks, at a tiny scale                                                    |
//! | [`changing`]   | a plan of the next run, and a pipeline that is moved to other positions           |
//! | [`guide`]      | the commands of docs/changing-a-pipeline.md, and a store that is lost              |
//! | [`hostile`]    | clients that mean harm                                                            |
//! | [`hostile_wires`] | the same at gRPC, syslog and TLS                                                  |
//! | [`batches`]    | requests with many records in Avro and Protobuf; the gateway's page with curl       |
//! | [`connections`] | thousands of connections at a gateway, at rest and sending                     |
//! | [`listening`]  | pipelines that take requests themselves                                            |
//! | [`ways`]       | what commands advise, followed                                                    |
//! | [`ways_pulsar`] | what a Pulsar source advises, followed                                             |
//! | [`demo`]       | what a newcomer runs first                                                        |

// Tests watch real processes by the real clock.
#![allow(clippy::disallowed_methods)]

mod batches;
mod bench;
mod changing;
mod collapsing;
mod collector;
mod connections;
mod created;
mod csv;
mod deaths;
mod demo;
mod doubts;
mod doubts_answered;
mod faults;
mod fencing;
mod gateway_kills;
mod glassflow;
mod glassflow_joins;
mod guide;
mod host_logs;
mod hostile;
mod hostile_wires;
mod inputs;
mod joins;
mod joins_temporal;
mod keys;
mod kill;
mod listening;
mod logs;
mod logs_clouds;
mod logs_s3;
mod lookups;
mod lookups_by_key;
mod mistakes;
mod nexmark;
mod objects;
mod otel;
mod otel_tls;
mod otlp;
mod otlp_grpc;
mod otlp_replays;
mod outages;
mod poison;
mod postgres;
mod problems;
mod protobuf;
mod pulsar;
mod pulsar_oauth;
mod pulsar_schemas;
mod pulsar_tls;
mod refused;
mod registry;
mod replays;
mod rereads;
mod s3;
mod senders;
mod stopping;
mod tables;
mod tls;
mod told;
mod tombstones;
mod topics;
mod unnest;
mod upserts;
mod users;
mod verify;
mod versions;
mod ways;
mod ways_kafka;
mod ways_pulsar;
mod web_access;
mod windows;
