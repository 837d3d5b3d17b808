//! Rules for what an input may say, and for the inputs beside each other.
//!
//! Owns what the schema cannot say about `source:` and each of `inputs:`. Does not own what steps make of the rows.

use super::super::model::listen::stream_of;
use super::super::model::source::{Mechanism, OAuth, Pulsar, Registry};
use super::super::model::{Input, Kafka};
use super::super::nearest::nearest;
use super::super::values::Broker;
use super::Rules;

/// Properties of librdkafka that have settings of their own, with the setting; a name that ends in `.` is a prefix.
const OWNED: [(&str, &str); 15] = [
    ("bootstrap.servers", "`brokers`"),
    ("metadata.broker.list", "`brokers`"),
    ("group.id", "`group`"),
    ("auto.offset.reset", "`start`"),
    ("security.protocol", "`security`"),
    ("sasl.", "`security.sasl`"),
    ("ssl.ca.location", "`security.tls.ca`"),
    ("ssl.certificate.location", "`security.tls.cert`"),
    ("ssl.key.location", "`security.tls.key`"),
    ("ssl.key.password", "`security.tls.key_password`"),
    ("enable.auto.commit", "the program: positions live in the journal"),
    ("enable.auto.offset.store", "the program: positions live in the journal"),
    ("isolation.level", "the program: transactions are read committed"),
    ("enable.partition.eof", "the program: it reports when a partition is read to its end"),
    ("partition.assignment.strategy", "the program: a lane takes all partitions"),
];

/// Properties of librdkafka that undo what TLS is for, or make the process load and run other code; a name that ends in `.` is a
/// prefix. They are refused with the reason: no cluster needs them.
const DANGEROUS: [(&str, Danger, &str); 8] = [
    (
        "enable.ssl.certificate.verification",
        Danger::Unless("true"),
        "without it anybody can pose as the broker",
    ),
    (
        "ssl.endpoint.identification.algorithm",
        Danger::Unless("https"),
        "without it any valid certificate is accepted for any broker; write \
      `security: { tls: { verify_host: false } }` if that is meant",
    ),
    (
        "enable.sasl.oauthbearer.unsecure.jwt",
        Danger::Unless("false"),
        "it logs in with tokens that nobody has signed",
    ),
    ("ssl.engine.", Danger::Always, "it loads a library into this process"),
    ("ssl.providers", Danger::Always, "it loads libraries into this process"),
    ("plugin.library.paths", Danger::Always, "it loads libraries into this process"),
    ("offset.store.", Danger::Always, "it writes files; positions live in the journal"),
    (
        "ssl.cipher.suites",
        Danger::Ciphers,
        "it allows ciphers that do not encrypt or do not verify the broker",
    ),
];

/// When a property is dangerous.
#[derive(Clone, Copy)]
enum Danger {
    Always,
    /// With every other value.
    Unless(&'static str),
    /// With OpenSSL's words for no encryption, no authentication, or no least strength.
    Ciphers,
}

impl Danger {
    fn is_met(self, value: &str) -> bool {
        let value = value.trim();
        match self {
            Self::Always => true,
            Self::Unless(safe) => !value.eq_ignore_ascii_case(safe),
            Self::Ciphers => value.split([':', ',', ' ', '+']).any(|word| {
                let word = word.to_ascii_uppercase();
                // `!aNULL` and `-aNULL` take them away.
                !word.starts_with(['!', '-'])
                    && (["NULL", "ADH", "AECDH", "EXP", "COMPLEMENTOFALL", "SECLEVEL=0"]
                        .iter()
                        .any(|weak| word.contains(weak))
                        || word == "ALL")
            }),
        }
    }
}

/// What is said of schemas from a file and a registry at once.
pub(super) const TWO_PLACES: &str =
    "`schema_file` and `registry` are two places of a schema; take one of them out";

impl Rules<'_> {
    /// Everything about the inputs.
    pub(super) fn inputs(&mut self) {
        let pipeline = self.pipeline;
        let inputs = pipeline.inputs();
        for input in &inputs {
            self.kafka(input);
            self.pulsar(input);
            self.log(input);
            self.generator(input);
            self.format(input);
            self.tombstones(input);
            self.fields(input);
        }
        if pipeline.source.is_none() {
            inputs.iter().for_each(|input| self.name(input));
        }
        for (nth, input) in inputs.iter().enumerate() {
            self.streams(input, &inputs[..nth]);
        }
        match self.has_join() {
            true => self.joins(&inputs),
            false => self.from(&inputs),
        }
    }

    /// A name is in metric labels, messages and options of the command line.
    fn name(&mut self, input: &Input<'_>) {
        let is_word = |text: &str| {
            let mut bytes = text.bytes();
            bytes.next().is_some_and(|first| first.is_ascii_lowercase())
                && bytes.all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'_' | b'-'))
        };
        let name = input.name;
        if !is_word(name) || name.len() > INPUT_NAME_MAX {
            let message = format!(
                "`{}` cannot be the name of an input: it has 1 to {INPUT_NAME_MAX} of `a-z`, `0-9`, `_` and `-`, a letter first",
                dataflow::printing::escaped(name, INPUT_NAME_MAX)
            );
            self.fault(&input.path, message);
        } else if name == engine::problem::STORE {
            let message =
                format!("no input can be called `{name}`: status and metrics give the store that name");
            self.fault(&input.path, message);
        }
    }

    /// A dead letter and a position name the topic or file, and not the input, so each belongs to one input.
    fn streams(&mut self, input: &Input<'_>, others: &[Input<'_>]) {
        for (path, stream) in streams(input) {
            let Some(other) =
                others.iter().find(|other| streams(other).iter().any(|(_, one)| *one == stream))
            else {
                continue;
            };
            let message = format!(
                "`{stream}` is read by input `{}` already, and a dead letter names the topic or file only; read it by one input, and tell its \
                 records apart with conditions under `sinks` or a `filter`",
                other.name
            );
            self.fault(&path, message);
        }
        self.usual_stream(input, others);
    }

    /// A stream that has no name of its own in the file is called after the pipeline or its format, and a topic may be called so too.
    fn usual_stream(&mut self, input: &Input<'_>, others: &[Input<'_>]) {
        let pipeline = self.pipeline;
        let usual = |input: &Input<'_>| {
            let is_unnamed = input.source.listen.as_ref().is_some_and(|listen| listen.stream.is_none());
            stream_of(pipeline, input.source).filter(|_| is_unnamed).map(|stream| stream.to_string())
        };
        let reads = |input: &Input<'_>, name: Option<&str>| {
            // Streams are compared with each other by the rules of the listener.
            let is_other = input.source.listen.is_none();
            is_other && name.is_some_and(|name| streams(input).iter().any(|(_, one)| one == name))
        };
        let own = usual(input);
        let other =
            others.iter().find(|other| reads(other, own.as_deref()) || reads(input, usual(other).as_deref()));
        if let Some(other) = other {
            let path = if own.is_some() { &input.path } else { &other.path };
            let message = format!(
                "its stream is called as what input `{}` reads, and a dead letter names nothing else; give the stream another name with \
                 `listen: {{ stream: … }}`",
                if own.is_some() { other.name } else { input.name }
            );
            self.fault(&format!("{path}.listen"), message);
        }
    }

    /// Which inputs a step reads.
    fn from(&mut self, inputs: &[Input<'_>]) {
        let known: Vec<&str> = inputs.iter().map(|input| input.name).collect();
        let mut for_all: Option<String> = None;
        for (index, step) in self.pipeline.steps.iter().enumerate() {
            let path = format!("steps[{index}].{}", step.word());
            let Some(from) = &step.from else {
                for_all.get_or_insert(path);
                continue;
            };
            let of_from = format!("steps[{index}].from");
            for name in from.as_slice().iter().filter(|name| !known.contains(&name.as_str())) {
                let near = nearest(name.as_str(), &known);
                let near = near.map_or(String::new(), |near| format!(", did you mean `{near}`?"));
                self.fault(&of_from, format!("there is no input `{name}`{near}"));
            }
            if step.is_stateful() {
                let word = step.word();
                let message = format!(
                    "`{word}` has a state for the rows of all inputs, so it takes no `from`; put `_input` into its `key` to tell them apart, \
                     or make two pipelines"
                );
                self.fault(&of_from, message);
            } else if let Some(before) = &for_all {
                let message = format!(
                    "the rows of all inputs are one behind `{before}`, so a step behind it takes no `from`; move it before `{before}`, or \
                     write a condition on `_input`"
                );
                self.fault(&of_from, message);
            }
        }
    }

    fn kafka(&mut self, input: &Input<'_>) {
        let Some(kafka) = &input.source.kafka else { return };
        for (name, value) in &kafka.properties {
            let dangerous = DANGEROUS.iter().find(|(own, danger, _)| {
                let is_meant =
                    name.as_str() == *own || (own.ends_with('.') && name.as_str().starts_with(own));
                is_meant && danger.is_met(value.reveal())
            });
            if let Some((_, _, why)) = dangerous {
                let path = format!("{}.kafka.properties.{name}", input.path);
                self.fault(&path, format!("`{name}` is refused: {why}"));
            }
            let owned = OWNED.iter().find(|(own, _)| {
                name.as_str() == *own || (own.ends_with('.') && name.as_str().starts_with(own))
            });
            if let Some((_, owner)) = owned {
                let path = format!("{}.kafka.properties.{name}", input.path);
                self.fault(&path, format!("`{name}` is set by {owner}"));
            }
        }
        self.tls(kafka, &input.path);
        self.sasl(kafka, &input.path);
    }

    fn tls(&mut self, kafka: &Kafka, input: &str) {
        let Some(tls) = &kafka.security.tls else { return };
        if tls.cert.is_some() != tls.key.is_some() {
            self.fault(
                &format!("{input}.kafka.security.tls"),
                "`cert` and `key` go together: a certificate needs its key",
            );
        }
    }

    fn sasl(&mut self, kafka: &Kafka, input: &str) {
        let Some(sasl) = &kafka.security.sasl else { return };
        let path = format!("{input}.kafka.security.sasl");
        let mechanism = sasl.mechanism.as_str();
        match sasl.mechanism {
            Mechanism::Plain | Mechanism::ScramSha256 | Mechanism::ScramSha512 => {
                if sasl.username.is_none() || sasl.password.is_none() {
                    self.fault(&path, format!("`{mechanism}` needs `username` and `password`"));
                }
            }
            Mechanism::OAuthBearer => match &sasl.oauth {
                None => self.fault(&path, format!("`{mechanism}` needs `oauth`")),
                Some(oauth) => self.oauth(oauth, sasl.allow_plaintext_password, &format!("{path}.oauth")),
            },
        }
        let in_clear = match sasl.mechanism {
            Mechanism::Plain => Some("password"),
            Mechanism::OAuthBearer => Some("token"),
            // The password itself never travels.
            Mechanism::ScramSha256 | Mechanism::ScramSha512 => None,
        };
        let is_local = kafka.brokers.as_slice().iter().all(Broker::is_loopback);
        if let Some(what) = in_clear
            && kafka.security.tls.is_none()
            && !is_local
            && !sasl.allow_plaintext_password
        {
            self.fault(
                &path,
                format!(
                    "`{mechanism}` without `tls` sends the {what} in clear to another machine; add `tls: {{}}`, or write \
                     `allow_plaintext_password: true`"
                ),
            );
        }
    }

    fn format(&mut self, input: &Input<'_>) {
        let source = input.source;
        self.csv(input);
        self.otlp(input);
        self.protobuf(input);
        let Some(avro) = source.format.avro() else { return };
        if source.delimits_records() && source.pulsar.is_none() && source.format.is_of_the_source() {
            let message = "Avro needs the schema that its records were written with: write \
                           `format: { avro: { schema_file: events.avsc } }`, or for records that name theirs \
                           `format: { avro: { registry: { url: \"http://registry:8081\" } } }`";
            self.fault(&format!("{}.format", input.path), message);
        }
        if avro.schema_file.is_some() && avro.registry.is_some() {
            self.fault(&format!("{}.format.avro", input.path), TWO_PLACES);
        }
        if let Some(registry) = &avro.registry {
            self.registry(registry, &format!("{}.format.avro.registry", input.path));
        }
        if source.delimits_records() {
            return;
        }
        let message = match source.generator {
            Some(_) => "a generator makes JSON; leave `format` out",
            None => {
                "Avro is read from Kafka, Pulsar or a log, which delimit its records; lines of a file cannot"
            }
        };
        self.fault(&format!("{}.format.avro", input.path), message);
    }

    fn otlp(&mut self, input: &Input<'_>) {
        let source = input.source;
        if source.format.otlp().is_none() || source.delimits_records() {
            return;
        }
        let message = match source.generator {
            Some(_) => "a generator makes JSON; leave `format` out",
            None => {
                "OTLP is read from Kafka, Pulsar or a log, which delimit its requests; lines of a file cannot"
            }
        };
        self.fault(&format!("{}.format", input.path), message);
    }

    fn pulsar(&mut self, input: &Input<'_>) {
        let Some(pulsar) = &input.source.pulsar else { return };
        let path = format!("{}.pulsar", input.path);
        self.pulsar_topics(pulsar, &path);
        let (security, is_tls) = (&pulsar.security, pulsar.service.is_tls());
        let path = format!("{path}.security");
        if let Some(tls) = &security.tls {
            if !is_tls {
                let message = "`tls` has no effect with `pulsar://`; write `service: pulsar+ssl://host:6651`";
                self.fault(&format!("{path}.tls"), message);
            }
            if tls.cert.is_some() != tls.key.is_some() {
                self.fault(&format!("{path}.tls"), "`cert` and `key` go together");
            }
        }
        if security.token.is_some() && security.oauth.is_some() {
            self.fault(&path, "`token` and `oauth` are two ways to log in; take one of them out");
        }
        if let Some(oauth) = &security.oauth {
            self.oauth(oauth, security.allow_plaintext_password, &format!("{path}.oauth"));
        }
        let has_token = security.token.is_some() || security.oauth.is_some();
        if has_token && !is_tls && !pulsar.service.is_loopback() && !security.allow_plaintext_password {
            self.fault(
                &path,
                "the token is sent in clear to another machine; use `pulsar+ssl://`, or write `allow_plaintext_password: true`",
            );
        }
    }

    /// Where tokens come from; `in_clear` if a secret may be sent in clear.
    fn oauth(&mut self, oauth: &OAuth, in_clear: bool, path: &str) {
        let OAuth { token_command, issuer_url, client_id, client_secret, audience, scope, ca, .. } = oauth;
        if token_command.as_ref().is_some_and(|words| words.iter().all(|word| word.trim().is_empty())) {
            self.fault(&format!("{path}.token_command"), "names no program");
        }
        let Some(url) = issuer_url else {
            let is_of_issuer = client_id.is_some() || client_secret.is_some() || audience.is_some();
            if is_of_issuer || scope.is_some() || ca.is_some() {
                let message = "only an issuer is asked with `client_id`, `client_secret`, `audience`, `scope` and `ca`; write `issuer_url`, or take \
                               them out";
                self.fault(path, message);
            }
            return;
        };
        if client_id.as_deref().unwrap_or_default().is_empty() || client_secret.is_none() {
            self.fault(path, "`issuer_url` needs `client_id` and `client_secret`");
        }
        if !url.is_tls() && !url.is_loopback() && !in_clear {
            self.fault(
                path,
                "the secret is sent in clear to another machine; use `https://`, or write `allow_plaintext_password: true`",
            );
        }
        if ca.is_some() && !url.is_tls() {
            self.hint(&format!("{path}.ca"), "`ca` has no effect with `http://`");
        }
    }

    fn log(&mut self, input: &Input<'_>) {
        let Some(log) = &input.source.log else { return };
        let path = format!("{}.log.url", input.path);
        if log.url.is_memory() {
            self.fault(
                &path,
                "a log in memory is that of one process only, and is empty here; name a folder or a bucket",
            );
        } else if log.url.as_str().trim_end_matches('/') == self.pipeline.store.as_str().trim_end_matches('/')
        {
            self.fault(&path, "the log needs a folder of its own: this is the one of `store`");
        }
    }

    /// One topic may be written in two ways.
    fn pulsar_topics(&mut self, pulsar: &Pulsar, path: &str) {
        let topics = pulsar.topics.as_deref().unwrap_or_default();
        for (at, topic) in topics.iter().enumerate() {
            if topics[..at].iter().any(|other| other.stream() == topic.stream()) {
                self.fault(&format!("{path}.topics[{at}]"), format!("`{topic}` is named twice"));
            }
        }
    }

    pub(super) fn registry(&mut self, registry: &Registry, path: &str) {
        let Registry { url, user, password, token, .. } = registry;
        if token.is_some() && user.is_some() {
            self.fault(path, "`token` and `user` are two ways to log in; take one of them out");
        }
        if user.is_some() != password.is_some() {
            self.fault(path, "`user` and `password` go together");
        }
        let is_secret = password.is_some() || token.is_some();
        if is_secret && !url.is_tls() && !url.is_loopback() && !registry.allow_plaintext_password {
            self.fault(
                path,
                "the login is sent in clear to another machine; use `https://`, or write `allow_plaintext_password: true`",
            );
        }
        if registry.ca.is_some() && !url.is_tls() {
            self.hint(&format!("{path}.ca"), "`ca` has no effect with `http://`");
        }
    }

    fn generator(&mut self, input: &Input<'_>) {
        let Some(generator) = &input.source.generator else { return };
        let publishers = u64::from(generator.publishers.max(1));
        let shared = [
            ("uniques", generator.uniques),
            ("far_duplicates", generator.far_duplicates),
            ("cross_duplicates", generator.cross_duplicates),
        ];
        for (key, number) in shared {
            let rest = number % publishers;
            if rest > 0 {
                let near = (number - rest).max(publishers);
                let message =
                    format!("`{key}` must be a multiple of `publishers` ({publishers}); `{near}` is one");
                self.fault(&format!("{}.generator.{key}", input.path), message);
            }
        }
        if generator.cross_duplicates > 0 && publishers < 2 {
            self.fault(
                &format!("{}.generator.cross_duplicates", input.path),
                "duplicates of other publishers need at least two `publishers`",
            );
        }
    }

    fn fields(&mut self, input: &Input<'_>) {
        for (name, type_name) in &input.source.fields.0 {
            if let Err(error) = clickhouse::types::parse(name.as_str(), type_name) {
                self.fault(&format!("{}.fields.{name}", input.path), format!("no type: {}", error.reason));
            }
        }
    }
}

/// Bytes of an input's name: as many as a pipeline's has.
const INPUT_NAME_MAX: usize = 64;

/// The topics and files that an input names, each with its place.
fn streams(input: &Input<'_>) -> Vec<(String, String)> {
    let mut all = Vec::new();
    if let Some(kafka) = &input.source.kafka {
        let one = kafka.topic.iter().map(|topic| (format!("{}.kafka.topic", input.path), topic.to_string()));
        let several = kafka.topics.iter().flatten().enumerate();
        let several =
            several.map(|(at, topic)| (format!("{}.kafka.topics[{at}]", input.path), topic.to_string()));
        all.extend(one.chain(several));
    }
    if let Some(pulsar) = &input.source.pulsar {
        let one = pulsar.topic.iter().map(|topic| (format!("{}.pulsar.topic", input.path), topic.stream()));
        let several = pulsar.topics.iter().flatten().enumerate();
        let several =
            several.map(|(at, topic)| (format!("{}.pulsar.topics[{at}]", input.path), topic.stream()));
        all.extend(one.chain(several));
    }
    if let Some(log) = &input.source.log {
        all.push((format!("{}.log.url", input.path), log.url.to_string()));
    }
    if let Some(listen) = &input.source.listen {
        // Without a name it is called after the format or the pipeline; the rules of the listener compare those.
        let named = listen.stream.iter();
        all.extend(named.map(|stream| (format!("{}.listen.stream", input.path), stream.to_string())));
    }
    if let Some(files) = &input.source.file {
        let paths = files.paths.as_slice().iter();
        all.extend(paths.map(|path| (format!("{}.file.paths", input.path), path.clone())));
    }
    if input.source.generator.is_some() {
        all.push((format!("{}.generator", input.path), "the generator".to_owned()));
    }
    all
}
