//! Whether all replicas behind one address have the table under one identity.
//!
//! Owns the question and the fault. Does not own servers of which each has rows of its own (`checks::read::nodes`). A table is known by its identity
//! (`checks::sight`): each replica that has another one would be taken for a table that came in its place, and the operator be asked what became of rows that
//! all replicas have.

use std::collections::BTreeSet;

use dataflow::Remedy;
use futures::future::join_all;

use super::{Asker, Fault, NODE_PROBES, NODE_ROUNDS, borrowed, is_nil};
use crate::config::TableConfig;

/// Identity and data paths of each table of the name, of which there is one or none.
type Tables = (Vec<(String, String)>,);

/// The identity of the table on all replicas that new connections reach; none if they do not have it yet.
pub(super) async fn identity(ask: &Asker<'_>, config: &TableConfig) -> Result<Vec<String>, Fault> {
    let fresh = ask.client.without_kept_connections()?;
    let settings = borrowed(&ask.settings);
    let params = [("database", config.database.as_str()), ("table", config.table.as_str())];
    let sql = "SELECT groupArray((toString(uuid), toString(data_paths))) FROM system.tables \
               WHERE database = {database:String} AND name = {table:String}";
    let mut round = 1;
    loop {
        let asked = (0..NODE_PROBES).map(|_| fresh.one::<Tables>(sql, &settings, &params));
        let answers = join_all(asked).await;
        // One that is down now is no reason to wait for it, as long as another answers.
        if let Some(Err(error)) = answers.first().filter(|_| answers.iter().all(Result::is_err)) {
            return Err(Fault { remedy: Remedy::Resend, ..Fault::from(error.clone()) });
        }
        let of_table = |(uuid, paths): (String, String)| if is_nil(&uuid) { paths } else { uuid };
        let found = answers.into_iter().flatten().flat_map(|(tables,)| tables).map(of_table);
        let found: BTreeSet<String> = found.collect();
        if found.len() < 2 {
            return Ok(found.into_iter().collect());
        }
        // One that is exchanged at this moment is another one to some of them.
        if round == NODE_ROUNDS {
            return Err(differ(config, &found));
        }
        round += 1;
    }
}

fn differ(config: &TableConfig, found: &BTreeSet<String>) -> Fault {
    let shown: Vec<&str> = found.iter().map(String::as_str).collect();
    Fault::stop(format!(
        "repeated connections reach replicas on which table `{}` has different identities (`{}`), as they have if each was created by a `CREATE TABLE` of its \
         own: the next replica that answers would be taken for another table. Point `url` at one server, or create the replicas `ON CLUSTER`, in a Replicated \
         database, or with the same `UUID '…'` behind the name",
        config.name(),
        shown.join("`, `")
    ))
}
