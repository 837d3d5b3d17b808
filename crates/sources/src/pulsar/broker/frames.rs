//! What a frame of the broker means.
//!
//! Owns what is asked for once a frame was read ([`Next`]). Does not own what becomes of an entry (`lead`, `reading`), nor the doing ([`super`]).

use std::ops::Range;

use dataflow::block::NO_LEADER_EPOCH;
use dataflow::{Event, Partition};

use super::super::chunks;
use super::super::connection::Connection;
use super::super::entry::{self, EntryError};
use super::super::errors::{self, Trouble};
use super::super::frame::Frame;
use super::super::lead::{Came, Lead, Standing};
use super::super::messages::{Command as Wire, Kind, Last};
use super::super::place::Entry;
use super::super::reading::{Reading, tell_given_up};
use super::{Broker, Stop};

/// What a frame asks for, once it was read.
pub(super) enum Next {
    Nothing,
    /// Subscribe to this one once more.
    Again(Partition),
    /// Hand this one back.
    Back(Partition, Trouble),
    /// Connect anew: what comes behind a frame that is wrong cannot be told apart.
    Reconnect(String),
}

impl Broker {
    /// Reads a frame.
    pub(super) fn take(&mut self, connection: &Connection, frame: Range<usize>) -> Result<Next, Stop> {
        match connection.read(frame)? {
            Frame::Delivery { consumer, entry, body } => Ok(self.deliver(consumer, entry, body)),
            Frame::Command(command) => Ok(self.heard(*command)),
        }
    }

    /// Reads an entry.
    fn deliver(&mut self, consumer: u64, at: Entry, body: &[u8]) -> Next {
        // What was on its way when its consumer was given up comes again by the next one.
        let Some(partition) = self.consumers.get(&consumer) else { return Next::Nothing };
        let Some(lead) = self.leads.get_mut(partition) else { return Next::Nothing };
        let from = match lead.came(at) {
            Came::Read { from } => from,
            Came::Skip => {
                // What cannot be read was read before, so its number matters little.
                lead.spend(chunks::chunk(body).map_or(1, |says| says.messages.max(1)));
                return Next::Nothing;
            }
            Came::Prove => return Next::Again(partition.clone()),
            Came::Refuse(trouble) => return Next::Back(partition.clone(), trouble),
        };
        let mut reading = Reading {
            slot: &mut lead.slot,
            ready: &mut self.ready,
            scratch: &mut self.scratch,
            options: &self.options,
        };
        match reading.came(at, body, from) {
            Ok(messages) => {
                lead.spend(messages);
                tell_given_up(&mut lead.slot);
                Next::Nothing
            }
            Err((at, why)) => {
                let is_of_the_frame = matches!(why, EntryError::Frame(_));
                let why = format!("entry `{}:{}`: {why}", at.ledger, at.entry);
                match is_of_the_frame && !lead.slot.is_garbled_for_good(at) {
                    true => Next::Reconnect(why),
                    false => {
                        let why = format!("{why}. Or {}", entry::way_behind(partition, at));
                        Next::Back(partition.clone(), Trouble::Unreadable(why))
                    }
                }
            }
        }
    }

    /// Reads a command that is no entry.
    fn heard(&mut self, command: Wire) -> Next {
        match command.kind() {
            Kind::Success => {
                let request = command.success.unwrap_or_default().request;
                if let Some(lead) = self.leads.values_mut().find(|lead| lead.subscribing == Some(request)) {
                    lead.has_consumer();
                }
                Next::Nothing
            }
            Kind::Error => {
                let failure = command.error.unwrap_or_default();
                let of = |lead: &Lead| [lead.subscribing, lead.asked].contains(&Some(failure.request));
                match self.leads.iter().find(|(_, lead)| of(lead)) {
                    Some((partition, _)) => {
                        Next::Back(partition.clone(), errors::of(failure.error, &failure.message))
                    }
                    None => Next::Nothing,
                }
            }
            Kind::GetLastMessageIdResponse => self.last(&command.last.unwrap_or_default()),
            Kind::CloseConsumer => {
                let consumer = command.close_consumer.unwrap_or_default().consumer;
                match self.consumers.get(&consumer) {
                    Some(partition) => {
                        let why = "the broker hands the topic over".to_owned();
                        Next::Back(partition.clone(), Trouble::Moved(why))
                    }
                    None => Next::Nothing,
                }
            }
            Kind::ReachedEndOfTopic => {
                let consumer = command.reached_end.unwrap_or_default().consumer;
                let partition = self.consumers.get(&consumer);
                if let Some(lead) = partition.and_then(|partition| self.leads.get_mut(partition)) {
                    lead.is_terminated = true;
                    // The end is reported once more, as that of the topic.
                    lead.reported = None;
                }
                Next::Nothing
            }
            _ => Next::Nothing,
        }
    }

    /// The newest entry of a topic.
    fn last(&mut self, last: &Last) -> Next {
        let of = |(_, lead): &(&Partition, &mut Lead)| lead.asked == Some(last.request);
        let Some((partition, lead)) = self.leads.iter_mut().find(of) else { return Next::Nothing };
        lead.asked = None;
        match lead.heard(last.id.as_ref().and_then(Entry::of)) {
            Standing::Behind => Next::Nothing,
            Standing::Refuse(trouble) => Next::Back(partition.clone(), trouble),
            // Its position must not pass a message that may still become whole.
            Standing::CaughtUp if !lead.slot.chunks.is_empty() => Next::Nothing,
            Standing::CaughtUp => {
                let next = lead.slot.next;
                if !lead.slot.block.is_empty() {
                    self.ready.push(Event::Block(lead.slot.block.take()));
                }
                if lead.is_terminated {
                    lead.has_ended = true;
                    self.ready.push(Event::Ended { partition: partition.clone(), next });
                } else if lead.reported != Some(next) {
                    lead.reported = Some(next);
                    let leader_epoch = NO_LEADER_EPOCH;
                    self.ready.push(Event::CaughtUp { partition: partition.clone(), next, leader_epoch });
                }
                Next::Nothing
            }
        }
    }
}

#[cfg(test)]
mod tests;
