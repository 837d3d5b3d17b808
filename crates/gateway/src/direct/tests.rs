use std::time::Duration;

use dataflow::{BlockBuilder, Event, ReadFrom, Reader, Source};

use super::*;
use crate::options::{Fills, StreamOptions};
use crate::support::{self, in_memory, options, start, stream};

fn from(at: u64) -> ReadFrom {
    ReadFrom {
        partition: Partition::new("orders", 0),
        identity: String::new(),
        next: at.into(),
        leader_epoch: dataflow::block::NO_LEADER_EPOCH,
    }
}

async fn begin(source: &DirectSource, at: u64) -> Box<dyn Reader> {
    source.read(vec![from(at)]).await.expect("it can be read")
}

async fn block(reader: &mut Box<dyn Reader>) -> RecordBlock {
    loop {
        match reader.next().await.expect("it goes on") {
            Event::Block(block) => return block,
            Event::CaughtUp { .. } => {}
            other => panic!("{other:?}"),
        }
    }
}

/// A gateway whose stream goes to a pipeline.
async fn running() -> (support::Running, DirectSource, Arc<Direct>) {
    let direct = Direct::new("orders");
    let fills = Fills::Pipeline(direct.clone());
    let store = in_memory();
    let running = start(options(vec![StreamOptions { fills, ..stream("orders", &store) }])).await;
    (running, DirectSource::new(direct.clone()), direct)
}

const PATH: &str = "/v1/streams/orders";

#[tokio::test]
async fn a_request_is_answered_when_it_is_sealed_and_not_before() {
    let (running, source, _) = running().await;
    let mut reader = begin(&source, 7).await;
    let request = running.good(PATH, &[], "{\"id\":1}\n{\"id\":2}\n");
    let mut request = Box::pin(request);
    let read = tokio::select! {
        block = block(&mut reader) => block,
        answer = &mut request => panic!("nothing is sealed: {answer}"),
    };
    assert_eq!((read.len(), read.position(0), read.next), (2, 7, 9));
    assert_eq!(read.partition, Partition::new("orders", 0));
    let early = tokio::time::timeout(Duration::from_millis(50), &mut request).await;
    assert!(early.is_err(), "nothing is sealed: {early:?}");
    source.sealed(&[(Partition::new("orders", 0), 8)]);
    let early = tokio::time::timeout(Duration::from_millis(50), &mut request).await;
    assert!(early.is_err(), "half of it is sealed: {early:?}");
    source.sealed(&[(Partition::new("orders", 0), 9)]);
    let answer = request.as_mut().await;
    drop(request);
    assert_eq!((&answer["first"], &answer["next"]), (&7.into(), &9.into()));
    running.stop().await.expect("it ends");
}

#[tokio::test]
async fn nothing_is_ready_before_the_pipeline_reads() {
    let (running, source, _) = running().await;
    let (status, _, said) = support::get(running.address, "/readyz").await;
    assert_eq!((status, said.trim()), (503, "the pipeline is starting, and reads nothing yet"));
    let reader = begin(&source, 0).await;
    assert_eq!(support::get(running.address, "/readyz").await.0, 200);
    // A lane that is opened again, for other columns, is no start.
    drop(reader);
    assert_eq!(support::get(running.address, "/readyz").await.0, 200);
    running.stop().await.expect("it ends");
}

#[tokio::test]
async fn a_repeat_of_a_request_that_was_sealed_is_not_given_to_the_pipeline() {
    let (running, source, _) = running().await;
    let mut reader = begin(&source, 0).await;
    let key = [("Idempotency-Key", "a")];
    for is_repeat in [false, true] {
        let request = running.good(PATH, &key, "{\"id\":1}\n");
        let sealing = async {
            if !is_repeat {
                let block = block(&mut reader).await;
                source.sealed(&[(block.partition.clone(), block.next)]);
            }
        };
        let (answer, ()) = tokio::join!(request, sealing);
        assert_eq!((&answer["first"], &answer["repeat"]), (&0.into(), &is_repeat.into()));
    }
    running.stop().await.expect("it ends");
}

#[tokio::test]
async fn what_was_read_and_not_sealed_is_refused_when_the_lane_begins_again() {
    let (running, source, _) = running().await;
    let mut reader = begin(&source, 0).await;
    let request = running.send(PATH, &[], b"{\"id\":1}\n");
    let again = async {
        block(&mut reader).await;
        let mut reader = begin(&source, 0).await;
        // The earlier reader gets nothing more.
        (matches!(reader.next().await, Ok(Event::CaughtUp { next: 0, .. })), reader)
    };
    let ((status, _, text), (is_at_its_end, _reader)) = tokio::join!(request, again);
    assert!(is_at_its_end);
    assert_eq!(status, 503);
    assert!(text.contains("they are not stored; send again"), "{text}");
    assert!(reader.next().await.is_err(), "two readers would take requests from each other");
    running.stop().await.expect("it ends");
}

/// As while ClickHouse is away at the start of the pipeline, or its spool is full: senders repeat what was not answered.
#[tokio::test]
async fn what_the_pipeline_does_not_take_in_time_is_not_stored_and_what_it_took_may_be() {
    let (direct, runtime) = (Direct::new("orders"), support::runtime());
    let source = DirectSource::new(direct.clone());
    let wait = Duration::from_millis(50);
    let send = async || {
        let mut builder = BlockBuilder::new(Partition::new("gateway", 0), 0);
        builder.push(0, 7, Some(&b"{}"[..]));
        direct.append(builder.take(), &runtime, wait).await
    };
    let refusal = send().await.expect_err("nobody reads");
    assert!(refusal.kind == Kind::Unavailable && refusal.message.contains("are not stored"), "{refusal:?}");
    let mut reader = begin(&source, 0).await;
    let sealing = async {
        let block = block(&mut reader).await;
        tokio::time::sleep(4 * wait).await;
        source.sealed(&[(block.partition.clone(), block.next)]);
        block.len()
    };
    let (taken, rows) = tokio::join!(send(), sealing);
    assert_eq!((taken, rows), (Ok(0), 1), "what was refused is not there beside it");
}

#[tokio::test]
async fn a_pipeline_that_ends_tells_what_is_known() {
    let (running, source, direct) = running().await;
    let mut reader = begin(&source, 0).await;
    let read = running.send(PATH, &[], b"{\"id\":1}\n");
    let ending = async {
        block(&mut reader).await;
        let waiting = running.send(PATH, &[], b"{\"id\":2}\n");
        let closing = async {
            while direct.queue().is_idle() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            direct.close();
        };
        let (waiting, ()) = tokio::join!(waiting, closing);
        direct.end();
        waiting
    };
    let ((status, _, text), waiting) = tokio::join!(read, ending);
    assert_eq!((waiting.0, status), (503, 503));
    assert!(waiting.2.contains("\"unavailable\"") && waiting.2.contains("is stopping"), "{}", waiting.2);
    assert!(text.contains("\"not_yet\""), "{text}");
    running.stop().await.expect("it ends");
}

#[tokio::test]
async fn those_who_only_look_see_a_stream_without_records() {
    let source = DirectSource::silent("orders");
    let starts = source.partitions().await.expect("one");
    assert_eq!((starts.len(), &*starts[0].partition.stream), (1, "orders"));
    let mut reader = begin(&source, 7).await;
    assert!(matches!(reader.next().await, Ok(Event::CaughtUp { next: 7, .. })));
    let error = source.record(from(0)).await.expect_err("nothing is kept").to_string();
    assert!(error.contains("is not kept as it was sent"), "{error}");
}
