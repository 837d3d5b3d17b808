//! The `forebay` program: command line, HTTP, logs.
//!
//! Owns everything that users and other programs meet. Does not own the pipeline file and what is made from it (`pipeline`), nor
//! the work of the commands (`admin`), nor what the parts do: every other crate of the workspace does its own.
//!
//! | module       | what it owns                                              |
//! |--------------|-----------------------------------------------------------|
//! | [`allocator`] | how often memory is given back                          |
//! | [`cli`]      | commands, options, help                                   |
//! | [`console`]  | exit codes, the way to standard output                    |
//! | [`commands`] | what each command does                                    |
//! | [`http`]     | metrics, health, status                                   |
//! | [`recorder`] | what metrics are kept as, and their text                 |
//! | [`status_view`] | a running lane as JSON                                 |
//! | [`progress`] | lines that tell how far a pipeline is                     |
//! | [`logging`]  | log lines                                                 |
//! | [`open_files`] | how many files and connections may be open              |
//! | [`signals`]  | SIGTERM and SIGINT                                        |
// They panic where standard error or standard output cannot be written.
#![warn(clippy::print_stderr, clippy::print_stdout)]
#![allow(
    clippy::disallowed_methods,
    reason = "the program's edge: real clock, real threads; the data's path gets them through dataflow::Runtime"
)]

mod allocator;
mod cli;
mod commands;
mod console;
mod http;
mod logging;
mod open_files;
mod progress;
mod recorder;
mod signals;
mod status_view;

fn main() -> std::process::ExitCode {
    allocator::set_up();
    open_files::raise();
    cli::main()
}
