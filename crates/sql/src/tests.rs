//! Cases are data: `cases/*.txt`, run by [`cases`]. What is more than one expression and its rows is tested here.

mod calls;
mod cases;
mod speed;
mod steps;
mod types;
mod whole;
