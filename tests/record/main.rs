//! Timelines and flight records: of threads and of processes, on the host and on doubles of GPUs,
//! of ranks that agree, differ, are late and are killed. Each test runs a program of this file.

mod flight;
mod programs;
mod run;
#[cfg(all(feature = "cuda", target_os = "linux"))]
#[path = "../processes/stage.rs"]
mod stage;
mod timeline;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [program, name] = arguments.as_slice()
        && program == run::PROGRAM
    {
        return programs::main(name);
    }
    run::tests(&[timeline::TESTS, flight::TESTS], &arguments);
}
