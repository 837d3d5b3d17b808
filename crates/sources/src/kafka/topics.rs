//! Makes and deletes topics: for `forebay bench` and for tools.
//!
//! Owns the two calls and their bound. Does not own the topics that a pipeline reads (`sources::kafka`). Not on the data's path: a pipeline
//! never makes or deletes what it reads.

use std::collections::BTreeMap;

use dataflow::{SourceError, SourceFault};
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;

use super::CALL_WAIT_MAX;
use super::config::config;

/// A client that creates and deletes topics.
pub struct Topics {
    client: AdminClient<DefaultClientContext>,
    options: AdminOptions,
}

impl Topics {
    /// Connects in the background. `properties` are librdkafka's.
    ///
    /// # Errors
    /// [`SourceFault::Config`] for properties that librdkafka does not take.
    pub fn new(brokers: &[String], properties: &BTreeMap<String, String>) -> Result<Self, SourceError> {
        let mut settings = ClientConfig::new();
        settings.set("client.id", "forebay");
        for (name, value) in properties {
            settings.set(name, value);
        }
        settings.set("bootstrap.servers", brokers.join(","));
        let client = settings.create();
        let client = client.map_err(|error| config(format!("kafka's tools cannot be set up: {error}")))?;
        let options = AdminOptions::new()
            .request_timeout(Some(CALL_WAIT_MAX))
            // The answer comes when the topic can be used, not when it is noted.
            .operation_timeout(Some(CALL_WAIT_MAX));
        Ok(Self { client, options })
    }

    /// Makes a topic with one replica.
    ///
    /// # Errors
    /// The broker does not answer or refuses, for example because the topic is there.
    pub async fn create(&self, topic: &str, partitions: u32) -> Result<(), SourceError> {
        let partitions = i32::try_from(partitions).unwrap_or(i32::MAX);
        let new = NewTopic::new(topic, partitions, TopicReplication::Fixed(1));
        let outcome = self.client.create_topics([&new], &self.options).await;
        ended("make", topic, outcome)
    }

    /// Deletes a topic and all its records.
    ///
    /// # Errors
    /// The broker does not answer or refuses.
    pub async fn delete(&self, topic: &str) -> Result<(), SourceError> {
        let outcome = self.client.delete_topics(&[topic], &self.options).await;
        ended("delete", topic, outcome)
    }
}

fn ended(
    verb: &str,
    topic: &str,
    outcome: rdkafka::error::KafkaResult<Vec<rdkafka::admin::TopicResult>>,
) -> Result<(), SourceError> {
    let fault = |fault, why: &dyn std::fmt::Display| {
        Err(SourceError::new(fault, format!("kafka does not {verb} topic `{topic}`: {why}")))
    };
    match outcome {
        Err(error) => fault(SourceFault::Away, &error),
        Ok(results) => match results.into_iter().next() {
            Some(Ok(_)) => Ok(()),
            Some(Err((_, code))) => fault(SourceFault::Refused, &code),
            None => fault(SourceFault::Refused, &"the broker's answer does not mention it"),
        },
    }
}
