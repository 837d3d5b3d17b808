//! Names of topics.
//!
//! Owns their full form and the names of partitions. Does not own what exists. Pure.

/// The domain of topics that are stored.
const PERSISTENT: &str = "persistent://";
const NON_PERSISTENT: &str = "non-persistent://";

/// A topic's name without its domain: `tenant/namespace/topic`. A name without slashes is one of `public/default`.
///
/// # Errors
/// The rest of a sentence that begins with the name.
pub(crate) fn full(name: &str) -> Result<String, String> {
    if name.starts_with(NON_PERSISTENT) {
        return Err("is not stored by its broker: what is published while nobody reads is lost, so it cannot be read exactly once; \
                    use a `persistent://` topic"
            .into());
    }
    if name.contains(['*', '^']) {
        return Err(
            "looks like a pattern, and topics are listed by name; write each of them under `topics`".into()
        );
    }
    let bare = name.strip_prefix(PERSISTENT).unwrap_or(name);
    if bare.contains("://") {
        return Err("has an unknown domain; write `persistent://tenant/namespace/topic`".into());
    }
    let parts: Vec<&str> = bare.split('/').collect();
    let is_named = |part: &&str| !part.is_empty() && !part.contains(char::is_control);
    match parts[..] {
        [topic] if !name.starts_with(PERSISTENT) && is_named(&topic) => Ok(format!("public/default/{topic}")),
        [_, _, _] if parts.iter().all(is_named) => Ok(bare.to_owned()),
        _ => Err("is no name of a topic; write `topic`, or `persistent://tenant/namespace/topic`".into()),
    }
}

/// The name that a broker knows partition `index` of `stream` by; a topic without partitions has only partition 0.
pub(super) fn of_partition(stream: &str, index: u32, is_partitioned: bool) -> String {
    if is_partitioned {
        format!("{PERSISTENT}{stream}-partition-{index}")
    } else {
        format!("{PERSISTENT}{stream}")
    }
}

/// The name that a broker knows the topic itself by.
pub(super) fn whole(stream: &str) -> String {
    format!("{PERSISTENT}{stream}")
}

#[cfg(test)]
mod tests;
