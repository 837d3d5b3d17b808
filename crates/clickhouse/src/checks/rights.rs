//! What follows from rights on a table that this user does not have.
//!
//! Owns the judgement and the statements that grant them. Does not own the questions ([`super::read`]), nor the right to create a table
//! (`super::faults_before_create`).

use dataflow::TableFault;

use super::Fault;
use super::read::Server;
use crate::config::TableConfig;
use crate::types::identifier;

/// A right to insert is needed at once. One to read is needed after a doubt, if rows `can_be_found` at all, and whoever waits for it then had no word of it before.
pub(super) fn check(
    config: &TableConfig,
    server: &Server,
    can_be_found: bool,
    faults: &mut Vec<Fault>,
    notes: &mut Vec<String>,
) {
    // Of a user that only reads nobody knows what is granted.
    if server.known.only_reads() {
        return;
    }
    let (user, table) = (&server.known.user, config.name());
    let grant = |right: &str| format!("GRANT {right} ON {} TO {}", config.quoted(), identifier(user));
    if server.lacking.insert {
        let message = format!(
            "user `{user}` may not insert into table `{table}`: it is necessary to have the grant INSERT on its columns"
        );
        faults.push(Fault { kind: TableFault::Access, ..Fault::fixed_by(message, grant("INSERT")) });
    }
    if server.lacking.select && can_be_found {
        notes.push(format!(
            "user `{user}` may not read table `{table}`, so the rows of an insert whose answer was lost cannot be looked for: it would wait, and what \
             comes behind it, until that is granted. To avoid this: `{}`",
            grant("SELECT")
        ));
    }
}

#[cfg(test)]
mod tests;
