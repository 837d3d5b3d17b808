//! Cases are data: `cases/*.txt`, run by [`cases`]. What is more than one expression and its rows is tested here.

mod calls;
pub(crate) mod cases;
mod speed;
mod steps;
pub(crate) mod types;
mod whole;
