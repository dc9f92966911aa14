//! The `warpbell` command: arguments in, one result out on stdout, everything else on stderr.

#![forbid(unsafe_code)]

mod args;
mod commands;
mod date;
mod events;
mod exit;
mod interrupt;
mod log;
mod open;
mod out;
mod outputs;
mod part;
mod progress;
mod render;
mod tree;

use std::process::ExitCode;

use args::{Cli, Command};
use clap::{ArgMatches, CommandFactory, FromArgMatches};
use exit::Ending;
use warpbell_kernels::toolchain::{Watch, on_compile};
use warpbell_workload::{permission, units};

fn main() -> ExitCode {
    warpbell_gpu::widen_connections();
    let code = ended();
    if warpbell_kernels::toolchain::compiling() {
        // Where even standard output is closed, nothing is left to do.
        let _ = std::io::Write::flush(&mut std::io::stdout());
        signal_hook::low_level::exit(code.into());
    }
    ExitCode::from(code)
}

/// The exit code of this command line, once it is done.
fn ended() -> u8 {
    match parsed() {
        Ok((cli, given)) => {
            cli.refuse_replaced(&given).and_then(|()| run(&cli)).map_or_else(Ending::report, |()| 0)
        }
        Err(error) if error.use_stderr() && !is_help(&error) => Ending::from(error).report(),
        Err(text) => {
            let code = u8::try_from(text.exit_code()).unwrap_or(exit::USAGE);
            // Help and version: a reader that leaves early is no failure.
            let printed = text.print().and_then(|()| std::io::Write::flush(&mut std::io::stdout()));
            printed.map_or_else(|error| Ending::from(error).report(), |()| code)
        }
    }
}

/// The command line, and which of its options were given.
fn parsed() -> Result<(Cli, ArgMatches), clap::Error> {
    let given = Cli::command().try_get_matches()?;
    let cli = Cli::from_arg_matches(&given).map_err(|error| error.format(&mut Cli::command()))?;
    Ok((cli, given))
}

/// `warpbell` alone shows its help, as an error: it was not told what to do.
fn is_help(error: &clap::Error) -> bool {
    error.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
}

fn run(cli: &Cli) -> Result<(), Ending> {
    log::start(cli.global.verbose);
    cli.global.refuse(&cli.command)?;
    let stop = interrupt::flag().map_err(|error| Ending::failed(format!("signals: {error}")))?;
    let begin =
        |what: &str| eprintln!("compiling {what} by NVRTC: ten seconds or more, once; the result is kept");
    on_compile(Watch::new().begin(begin).interrupted(interrupt::asked));
    match &cli.command {
        Command::List(args) => commands::list::run(args, &cli.global),
        Command::Check(args) => commands::check::run(args, &cli.global, stop),
        Command::Topo(args) => commands::topo::run(args, &cli.global),
        Command::Bind(args) => commands::bind::run(args, &cli.global),
        Command::Unbind(args) => commands::unbind::run(args, &cli.global),
        Command::Identify(args) => commands::identify::run(args, &cli.global),
        Command::Bench(args) => commands::bench::run(args, &cli.global, stop),
        Command::Digest(args) => commands::digest::run(args, &cli.global, stop),
        Command::Read(args) => commands::copy::read(args, &cli.global, stop),
        Command::Write(args) => commands::copy::write(args, &cli.global, stop),
        Command::Files(command) => commands::files::run(command, &cli.global, stop),
        Command::Gen(args) => commands::generate::run(args, &cli.global, stop),
        Command::Report(args) => commands::report::run(args, &cli.global),
        Command::Plan(args) => commands::plan::run(args, &cli.global),
        Command::Serve(args) => commands::serve::run(args, &cli.global, stop),
    }
}
