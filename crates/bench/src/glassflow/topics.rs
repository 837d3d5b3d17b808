//! The topics of runs.
//!
//! Owns how one is made, filled, sent to at a pace, and dropped again. Does not own the records, which are those of `workloads`.

use anyhow::Context;
use std::time::Instant;

use anyhow::bail;

use super::feed::Prepared;
use super::{Bench, Feed, LOAD_AHEAD};
use crate::engine::{Pipeline, Seen};
use crate::topic::{Pace, Sent, Topic};
use crate::{RUN_MAX, START_MAX, child};

impl Bench<'_> {
    /// Sends while the engine runs, and ends the engine when all is in the table.
    pub(super) async fn paced(
        &self,
        pipeline: &Pipeline,
        topic: Topic,
        rate: u64,
        rows: u64,
    ) -> anyhow::Result<(child::End, Seen, Sent)> {
        let prepared = Prepared::new(&self.plan.workload)?;
        let mut engine = pipeline.start(false)?;
        if let Err(error) = engine.ready(START_MAX).await {
            self.drop_topic(&topic).await;
            return Err(error);
        }
        let (topic, sent) = {
            let sending = tokio::task::spawn_blocking(move || {
                let sent = topic.send(&prepared, Pace::new(rate, Instant::now() + LOAD_AHEAD));
                (topic, sent)
            });
            let (watched, sent) = tokio::join!(engine.watch(Some(rows), RUN_MAX), sending);
            let (topic, sent) = sent.context("the sender panicked")?;
            (topic, sent.and_then(|sent| watched.map(|(end, seen)| (end, seen, sent))))
        };
        self.drop_topic(&topic).await;
        sent
    }

    /// A topic for this run, filled unless it is filled at a pace later.
    pub(super) async fn topic(&self, name: &str, paced: bool) -> anyhow::Result<Topic> {
        let Feed::Kafka { brokers, partitions, compression, .. } = &self.plan.feed else {
            bail!("a generator has no topic");
        };
        let topic = Topic::create(brokers, name.to_owned(), *partitions, compression).await?;
        if paced {
            return Ok(topic);
        }
        self.place.say(&format!("filling topic `{name}`"));
        let workload = self.plan.workload.clone();
        let filling = tokio::task::spawn_blocking(move || {
            let mut topic = topic;
            topic.filled_in = Some(topic.fill(&workload)?);
            Ok(topic)
        });
        filling.await.context("the sender panicked")?
    }

    pub(super) async fn drop_topic(&self, topic: &Topic) {
        if self.plan.common.keep {
            return;
        }
        if let Err(error) = topic.delete().await {
            // The measurement stands; what is left over is the broker's.
            self.place.say(&format!("topic `{}` is left over: {error:#}", topic.name()));
        }
    }

    pub(super) fn brokers(&self) -> anyhow::Result<&str> {
        match &self.plan.feed {
            Feed::Kafka { brokers, .. } => Ok(brokers),
            Feed::Generator { .. } => bail!("a load needs a topic"),
        }
    }
}
