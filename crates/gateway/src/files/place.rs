//! The note of a stream's log that says where its files are: read at a start, written while they are followed.
//!
//! Owns that nothing is deleted from the log whose labels are not noted, also while the gateway follows no files into it any more. Does not
//! own what the note says (`files::table`), nor its bytes in the store (`object_log::note`).

use object_log::{LogError, LogPartition, Note, Notes, Owner, Pin, Root, labels};
use tokio::sync::watch;

use super::table::{Table, file_of};

/// Where the files of a stream are.
pub(crate) struct Place {
    notes: Notes,
    roots: watch::Receiver<Root>,
    pin: Pin,
    /// What must stay, also once the start is over: the position behind which labels of files are to be read by the next owner.
    needed: Option<u64>,
    table: Table,
}

impl Place {
    /// Reads what was noted and the labels behind it, and notes what they have come to. For the owner, right after its start, who `follows` files into this
    /// log or does not. Nothing is deleted until [`started`](Self::started).
    ///
    /// # Errors
    /// When the store fails for good, the note is damaged, or the labels behind it are deleted.
    pub async fn open(partition: &LogPartition, owner: &Owner, follows: bool) -> Result<Self, LogError> {
        let pin = owner.pin();
        // Until it is known what is needed, and the names of requests are read too.
        pin.set(Some(0));
        let root = owner.root();
        let (notes, found) = Notes::open(partition.clone(), &root).await?;
        let mut place = Self { notes, roots: owner.roots(), pin, needed: None, table: Table::default() };
        let Some(found) = found else {
            place.table.is_followed = follows;
            return Ok(place);
        };
        let key = partition.names().note();
        place.table = Table::from_bytes(&found.note.body).map_err(|why| {
            LogError::Refused(format!("`{key}` is not what a gateway notes of files: {why}"))
        })?;
        let was_followed = place.table.is_followed;
        let mut labels = 0_u64;
        let learn = |label: labels::Label| {
            if let Some(number) = file_of(label.id) {
                labels += 1;
                place.table.reached(number, label.tag);
            }
        };
        if was_followed {
            labels::since(partition, &root, &found, learn).await.map_err(|error| match error {
                LogError::Truncated { place, position, low } => LogError::Refused(format!(
                    "`{place}` has noted where its files are at position {position}, and is deleted up to {low}, so nobody can tell which \
                     lines it has; let the files fill another stream"
                )),
                other => other,
            })?;
        }
        place.table.is_followed = follows;
        if was_followed || follows {
            tracing::info!(
                files = place.table.files.len(),
                labels,
                "a log knows where the files are that have filled it"
            );
            let table = place.table.clone();
            let position = place.write(&table).await?;
            // Without files no label comes that would have to be read.
            place.needed = follows.then_some(position);
        }
        Ok(place)
    }

    /// All labels are read that the start needs: from now on only those stay that the next one will need.
    pub fn started(&self) {
        self.pin.set(self.needed);
    }

    /// What was known at the start.
    pub fn table(&self) -> Table {
        self.table.clone()
    }

    /// Notes what is known, which all appends of files have told that were answered; none is under way.
    ///
    /// # Errors
    /// When another owner has the log, or the store fails for good.
    pub async fn note(&mut self, table: &Table) -> Result<(), LogError> {
        let position = self.write(table).await?;
        self.needed = Some(position);
        self.pin.set(self.needed);
        Ok(())
    }

    /// Whether the log has records behind the note. They stay, and are looked through by the next start, until another note is written.
    pub fn is_behind(&self) -> bool {
        self.needed.is_some_and(|position| position < self.roots.borrow().next)
    }

    async fn write(&mut self, table: &Table) -> Result<u64, LogError> {
        let position = self.roots.borrow().next;
        // A first note may be there long before its write is answered, or this process may never hear of it: the next owner reads on from there.
        if self.needed.is_none() {
            self.pin.lower(position);
        }
        self.notes.write(&Note { position, body: table.to_bytes() }).await?;
        Ok(position)
    }
}

#[cfg(test)]
mod tests;
