//! The rules of this crate's traits as tests that any implementation runs.
//!
//! Owns what can be shown through a trait alone. Does not own what a single implementation adds to it, which its own tests show. Every
//! function panics and names the rule that is broken; none of them names a local crate or an executor, so that a simulation can run them as
//! well.
//!
//! | suite        | for                                                  | run by              |
//! |--------------|------------------------------------------------------|---------------------|
//! | [`source`]   | [`Source`](crate::Source), [`Reader`](crate::Reader) | every source        |
//! | [`decoder`]  | [`Decoder`](crate::Decoder)                          | every format        |
//! | [`operator`] | [`Operator`](crate::Operator), [`State`](crate::State) | every step          |

pub mod decoder;
pub mod operator;
pub mod source;
