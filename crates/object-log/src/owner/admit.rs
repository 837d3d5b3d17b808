//! Appends on their way into the open batch.
//!
//! Owns which are taken, which are answered at once, and which wait with the one that they repeat. Does not own the rule (`decide::admit`).

use dataflow::Effect;
use tokio::sync::oneshot;

use super::run::{Run, Waiting};
use super::{Answer, Appended, Message, stopped};
use crate::decide;
use crate::decide::Admit;
use crate::error::{AppendError, AppendFault};
use crate::labels::LABELS;
use crate::object::ROW_BYTES;

impl Run {
    /// Takes an append into the open batch, or answers it at once.
    pub(super) fn take(&mut self, message: Message) {
        let Message { append, permit, answer } = message;
        let producer = append.producer;
        if let Some((id, ordinal)) = counted(producer) {
            // Where ordinals number records, the append has as many as records.
            let further = append.digest.map_or(0, |_| append.records.len() as u64 - 1);
            let ordinals = ordinal.saturating_sub(further)..=ordinal;
            let admit = decide::admit(self.root().watermark(id), self.last.get(&id).copied(), ordinals);
            let refuse = |fault, message| Err(AppendError { effect: Effect::None, fault, message });
            let result = match admit {
                Admit::Accept => {
                    let is_known = self.root().watermark(id).is_some() || self.last.contains_key(&id);
                    if !is_known && !self.root().has_room_for_producer(self.partition.clock().now_ms()) {
                        let message = "as many producers as a partition remembers are at work; use fewer, or another partition";
                        return drop(answer.send(refuse(AppendFault::TooManyProducers, message.to_owned())));
                    }
                    self.last.insert(id, ordinal);
                    None
                }
                Admit::Known => Some(Ok(Appended::Known)),
                Admit::OnItsWay => {
                    self.join(id, ordinal, answer);
                    return;
                }
                Admit::Gap { expected } => {
                    let message =
                        format!("the producer's append {ordinal} leaves a gap: {expected} is the next one");
                    return self.refuse_if_owner(answer, refuse(AppendFault::Gap, message));
                }
                Admit::Unknown => {
                    let message = format!(
                        "the producer of append {ordinal} is not known any more: whether it is in the log cannot be told; begin with a \
                         new producer id"
                    );
                    return self.refuse_if_owner(answer, refuse(AppendFault::UnknownProducer, message));
                }
            };
            if let Some(result) = result {
                // The sender may have given up.
                return drop(answer.send(result));
            }
        }
        if self.open.is_empty() {
            self.open_since = self.runtime.elapsed();
        }
        self.open_bytes += append.stored_bytes();
        self.open_raw_bytes += append.raw_bytes() + ROW_BYTES * append.records.len();
        let rows = append.records.len() as u64;
        self.open.push(append);
        self.open_waiting.push(Waiting {
            producer: counted(producer),
            rows,
            answers: vec![answer],
            _permit: permit,
        });
    }

    /// A later owner may know more of the producer, and a producer that is answered `unknown` starts over: so such an answer is given by
    /// the present owner alone.
    fn refuse_if_owner(&mut self, answer: oneshot::Sender<Answer>, refusal: Answer) {
        let (partition, claim, queue) = (self.partition.clone(), self.claim, self.root().queue_id());
        self.refusals.push(Box::pin(async move {
            partition.check_owner(queue, claim).await?;
            // The sender may have given up.
            let _ = answer.send(refusal);
            Ok(())
        }));
    }

    /// Answers a repeat together with the append that it repeats.
    fn join(&mut self, id: u128, ordinal: u64, answer: oneshot::Sender<Answer>) {
        let on_their_way = self.on_their_way.iter_mut().flat_map(|object| &mut object.waiting);
        let mut waiting = on_their_way.chain(&mut self.open_waiting);
        match waiting.find(|waiting| waiting.producer == Some((id, ordinal))) {
            Some(waiting) => waiting.answers.push(answer),
            // It is committed in the swap that is being answered.
            None => drop(answer.send(Err(stopped(Effect::Unknown)))),
        }
    }
}

/// A producer whose appends are counted; what a label says is not.
pub(super) fn counted(producer: Option<(u128, u64)>) -> Option<(u128, u64)> {
    producer.filter(|(_, ordinal)| *ordinal < LABELS)
}
