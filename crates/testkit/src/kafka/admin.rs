//! Topics, by Kafka's own command-line tools.
//!
//! Owns the tools' calls and the reading of what they print. Does not own the broker (`kafka`), nor records: tests use the client that they
//! test.

use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::{Kafka, jvm};
use crate::wait::poll;

/// A tool's own timeout for one request to the broker is 60 s.
const TOOL_MAX: Duration = Duration::from_secs(300);
/// Deletion is answered before the broker's view follows.
const DELETED_WITHIN: Duration = Duration::from_secs(300);
/// The broker sends a heartbeat every two seconds, once it gets to it.
const UNFENCED_WITHIN: Duration = Duration::from_secs(120);

/// A topic as the broker describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicDescription {
    /// Its id, in Kafka's 22 letters; a topic that is deleted and made again has another one.
    pub id: String,
    /// Its number of partitions.
    pub partitions: u32,
    /// Settings that differ from the broker's, as `key=value` joined by commas.
    pub configs: String,
}

impl Kafka {
    /// Creates a topic; it is an error if it exists.
    pub fn create_topic(&self, name: &str, partitions: u32, configs: &[(&str, &str)]) -> Result<()> {
        let mut args = vec![
            "--create".to_owned(),
            "--topic".into(),
            name.into(),
            "--partitions".into(),
            partitions.to_string(),
        ];
        for (key, value) in configs {
            args.push("--config".into());
            args.push(format!("{key}={value}"));
        }
        // On a busy machine the broker's heartbeat may be late; until the next it is given no partitions.
        let made = poll(UNFENCED_WITHIN, || match self.topic_command(&args) {
            Err(error) if error.to_string().contains("currently fenced") => None,
            result => Some(result),
        });
        let made = made.context("the broker stays fenced").and_then(|made| made);
        made.with_context(|| format!("cannot create topic `{name}`"))?;
        Ok(())
    }

    /// Deletes a topic and waits until the broker no longer describes it.
    pub fn delete_topic(&self, name: &str) -> Result<()> {
        self.topic_command(&["--delete".into(), "--topic".into(), name.into()])
            .with_context(|| format!("cannot delete topic `{name}`"))?;
        let gone = poll(DELETED_WITHIN, || match self.find_topic(name) {
            Ok(Some(_)) => None,
            Ok(None) => Some(Ok(())),
            Err(error) => Some(Err(error)),
        });
        gone.with_context(|| format!("topic `{name}` was deleted but is still described"))?
    }

    /// Raises a topic's partitions to `partitions` in all.
    pub fn add_partitions(&self, name: &str, partitions: u32) -> Result<()> {
        self.topic_command(&[
            "--alter".into(),
            "--topic".into(),
            name.into(),
            "--partitions".into(),
            partitions.to_string(),
        ])
        .with_context(|| format!("cannot raise topic `{name}` to {partitions} partitions"))?;
        Ok(())
    }

    /// The topic's id and shape; an error if there is none of that name.
    pub fn describe_topic(&self, name: &str) -> Result<TopicDescription> {
        self.find_topic(name)?.with_context(|| format!("there is no topic `{name}`"))
    }

    /// Removes the records of a partition below `before_offset`, as retention does.
    pub fn delete_records(&self, name: &str, partition: u32, before_offset: u64) -> Result<()> {
        let request = serde_json::json!({
            "version": 1,
            "partitions": [{ "topic": name, "partition": partition, "offset": before_offset }],
        });
        let path = self.dir().join(format!("delete-records-{}.json", next_number()));
        fs::write(&path, request.to_string())?;
        let path = path.display().to_string();
        let said =
            self.tool("org.apache.kafka.tools.DeleteRecordsCommand", &["--offset-json-file".into(), path])?;
        // The tool answers 0 even when the broker refuses.
        if !said.contains("low_watermark:") {
            bail!("cannot delete records of `{name}`: {}", said.trim());
        }
        Ok(())
    }

    /// Moves the position that a consumer group has committed, as somebody with Kafka's own tool does.
    pub fn move_group(&self, group: &str, name: &str, partition: u32, to: u64) -> Result<()> {
        let topic = format!("{name}:{partition}");
        let to = to.to_string();
        let args = ["--group", group, "--topic", &topic, "--reset-offsets", "--to-offset", &to, "--execute"];
        let said = self
            .tool("org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", &args.map(str::to_owned))?;
        // The tool answers 0 even when the broker refuses.
        if said.contains("Error") || !said.contains(&to) {
            bail!("cannot move group `{group}`: {}", said.trim());
        }
        Ok(())
    }

    /// Every partition's end: the offset that its next record gets.
    pub fn end_offsets(&self, name: &str) -> Result<BTreeMap<u32, u64>> {
        let said = self.tool(
            "org.apache.kafka.tools.GetOffsetShell",
            &["--topic".into(), name.into(), "--time".into(), "latest".into()],
        )?;
        let ends: BTreeMap<u32, u64> = said.lines().filter_map(|line| end_offset(line, name)).collect();
        if ends.is_empty() {
            bail!("there is no end of `{name}` in `{}`", said.trim());
        }
        Ok(ends)
    }

    fn find_topic(&self, name: &str) -> Result<Option<TopicDescription>> {
        // Without the flag the tool fails on an absent topic as it fails on an absent broker.
        let said =
            self.topic_command(&["--describe".into(), "--if-exists".into(), "--topic".into(), name.into()])?;
        Ok(said.lines().find_map(|line| description(line, name)))
    }

    fn topic_command(&self, args: &[String]) -> Result<String> {
        self.tool("org.apache.kafka.tools.TopicCommand", args)
    }

    /// Runs one of Kafka's tools against this broker; gives its stdout.
    fn tool(&self, class: &str, args: &[String]) -> Result<String> {
        let tool = jvm(&format!("tool-{}", next_number()), "kafka/tools", 128, &[]).arg(class);
        let tool = tool.arg("--bootstrap-server").arg(self.tools_bootstrap()).args(args);
        Ok(tool.run(self.dir(), TOOL_MAX)?.success()?.stdout)
    }

    /// Logs in as clients do, by SCRAM-SHA-256 over TLS, and asks for something; an error tells why it was not let in.
    pub fn log_in(&self, user: &str, password: &str) -> Result<()> {
        let credentials = self.credentials().context("this broker lets everybody in")?;
        let config = self.dir().join(format!("client-{}.properties", next_number()));
        fs::write(&config, credentials.client_properties(user, password))?;
        jvm(&format!("tool-{}", next_number()), "kafka/tools", 128, &[])
            .args([
                "org.apache.kafka.tools.TopicCommand",
                "--list",
                "--bootstrap-server",
                &self.bootstrap(),
                "--command-config",
            ])
            .arg(&config)
            .run(self.dir(), TOOL_MAX)?
            .success()?;
        Ok(())
    }
}

/// Tools run side by side, each with log files of its own.
fn next_number() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Reads `Topic: a<TAB>TopicId: x<TAB>PartitionCount: 2<TAB>...<TAB>Configs: k=v`.
fn description(line: &str, name: &str) -> Option<TopicDescription> {
    let fields: BTreeMap<&str, &str> = line.split('\t').filter_map(|field| field.split_once(": ")).collect();
    if fields.get("Topic")? != &name {
        return None;
    }
    Some(TopicDescription {
        id: (*fields.get("TopicId")?).to_owned(),
        partitions: fields.get("PartitionCount")?.trim().parse().ok()?,
        configs: fields.get("Configs").copied().unwrap_or("").trim().to_owned(),
    })
}

/// Reads `topic:partition:offset`.
fn end_offset(line: &str, name: &str) -> Option<(u32, u64)> {
    let (partition, offset) = line.strip_prefix(name)?.strip_prefix(':')?.split_once(':')?;
    Some((partition.parse().ok()?, offset.trim().parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_is_read_from_the_topics_line_alone() {
        let line = "Topic: a\tTopicId: yNf_cFFRRySssqZaJRhFMg\tPartitionCount: 2\tReplicationFactor: 1\tConfigs: retention.ms=5";
        let topic = description(line, "a").unwrap();
        assert_eq!(
            (topic.id.as_str(), topic.partitions, topic.configs.as_str()),
            ("yNf_cFFRRySssqZaJRhFMg", 2, "retention.ms=5")
        );
        assert_eq!(description(line, "b"), None);
        assert_eq!(description("\tTopic: a\tPartition: 0\tLeader: 1\tReplicas: 1", "a"), None);
    }

    #[test]
    fn an_end_belongs_to_the_topic_of_exactly_that_name() {
        assert_eq!(end_offset("a:3:17", "a"), Some((3, 17)));
        assert_eq!(end_offset("ab:3:17", "a"), None);
        assert_eq!(end_offset("a:3:", "a"), None);
    }
}
