//! Which partitions are read: orders to the thread, and the consumers that follow from them.
//!
//! Owns that a partition which is read has one consumer, and that one which is handed back has none. Does not own what is read of it.

use std::sync::mpsc;

use dataflow::{Event, Partition};

use super::super::client::reader_name;
use super::super::connection::Connection;
use super::super::errors::Trouble;
use super::super::lead::Lead;
use super::super::messages::{Command as Wire, EXCLUSIVE, Kind, OfConsumer, Subscribe};
use super::super::supervisor::Message;
use super::{Broker, Command, IDLE, Stop};

impl Broker {
    pub(super) fn obey(&mut self, connection: &mut Connection) -> Result<(), Stop> {
        loop {
            match self.commands.try_recv() {
                Ok(command) => self.follow(connection, command)?,
                Err(mpsc::TryRecvError::Empty) => return Ok(()),
                Err(mpsc::TryRecvError::Disconnected) => return Err(Stop::Closed),
            }
        }
    }

    /// Waits for an order while there is nothing to read.
    pub(super) fn wait(&mut self, connection: &mut Connection) -> Result<(), Stop> {
        match self.commands.recv_timeout(IDLE) {
            Ok(command) => self.follow(connection, command),
            Err(mpsc::RecvTimeoutError::Timeout) if self.events.is_closed() => Err(Stop::Closed),
            Err(mpsc::RecvTimeoutError::Timeout) => Ok(()),
            Err(mpsc::RecvTimeoutError::Disconnected) => Err(Stop::Closed),
        }
    }

    fn follow(&mut self, connection: &mut Connection, command: Command) -> Result<(), Stop> {
        match command {
            Command::Take(slot) => {
                let partition = slot.from.partition.clone();
                self.leads.insert(partition.clone(), Lead::new(*slot));
                self.subscribe(connection, &partition)
            }
            Command::Pause(partition, is_paused) => {
                let Some(lead) = self.leads.get_mut(&partition) else { return Ok(()) };
                if lead.slot.is_paused == is_paused {
                    return Ok(());
                }
                lead.slot.is_paused = is_paused;
                if is_paused {
                    self.unsubscribe(connection, &partition)
                } else {
                    self.subscribe(connection, &partition)
                }
            }
            Command::Release(partition) => {
                self.hand_back(connection, &partition, Trouble::Moved("it is taken away".into()))
            }
        }
    }

    /// Subscribes to a partition, in place of the consumer that it has.
    pub(super) fn subscribe(
        &mut self,
        connection: &mut Connection,
        partition: &Partition,
    ) -> Result<(), Stop> {
        self.unsubscribe(connection, partition)?;
        let Some(lead) = self.leads.get_mut(partition) else { return Ok(()) };
        if lead.slot.is_paused || lead.has_ended {
            return Ok(());
        }
        let (consumer, request) = (connection.number(), connection.number());
        let proof = lead.subscribed(consumer, request);
        self.consumers.insert(consumer, partition.clone());
        let subscribe = Some(Subscribe {
            topic: lead.slot.name.clone(),
            subscription: reader_name(&self.options.subscription, &*self.runtime),
            kind: EXCLUSIVE,
            consumer,
            request,
            durable: Some(false),
            start: Some(proof.start()),
            create_topic: Some(false),
            ..Subscribe::default()
        });
        connection.say(&Wire { kind: Kind::Subscribe as i32, subscribe, ..Wire::default() })?;
        Ok(())
    }

    /// Gives up the consumer of a partition, if it has one. What it has sent still is dropped.
    pub(super) fn unsubscribe(
        &mut self,
        connection: &mut Connection,
        partition: &Partition,
    ) -> Result<(), Stop> {
        let Some(lead) = self.leads.get_mut(partition) else { return Ok(()) };
        if let Some(consumer) = lead.consumer {
            lead.unsubscribed();
            self.consumers.remove(&consumer);
            let close_consumer = Some(OfConsumer { consumer, request: Some(connection.number()) });
            connection.say(&Wire { kind: Kind::CloseConsumer as i32, close_consumer, ..Wire::default() })?;
        }
        Ok(())
    }

    /// Hands a partition back, behind what was read of it.
    pub(super) fn hand_back(
        &mut self,
        connection: &mut Connection,
        partition: &Partition,
        trouble: Trouble,
    ) -> Result<(), Stop> {
        self.unsubscribe(connection, partition)?;
        let Some(mut lead) = self.leads.remove(partition) else { return Ok(()) };
        if !lead.slot.block.is_empty() {
            self.ready.push(Event::Block(lead.slot.block.take()));
        }
        self.hand_out(connection)?;
        self.reports.send(Message::Back { slot: Box::new(lead.slot), trouble }).map_err(|_| Stop::Closed)
    }
}
