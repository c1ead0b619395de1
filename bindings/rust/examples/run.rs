//! Runs a module on zeros: `cargo run --example run -- MODULE.so [SIZE]`. Open sizes are SIZE, or 1.

use std::{env, process::ExitCode};
use tensmith::{Dim, Error, Module, Port, Result, Session, SessionOptions, Tensor};

fn zeros(port: &Port, open: i64) -> Result<Tensor<'static>> {
    let shape: Vec<i64> = port
        .dims
        .iter()
        .flatten()
        .map(|dim| match dim {
            Dim::Fixed(size) => *size,
            Dim::Open(_) => open,
        })
        .collect();
    Tensor::zeros(port.data_type, &shape)
}

fn run(path: &str, open: i64) -> std::result::Result<(), Error> {
    // SAFETY: whoever calls this example trusts the module.
    let module = unsafe { Module::load(path)? };
    let session = Session::new(&module, &SessionOptions::default())?;
    let inputs: Vec<_> = module.inputs().iter().map(|port| zeros(port, open)).collect::<Result<_>>()?;
    let outputs = session.run(&inputs.iter().collect::<Vec<_>>())?;
    for (port, output) in module.outputs().iter().zip(&outputs) {
        println!("{}: {:?}", port.name, output);
    }
    Ok(())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().collect();
    let Some(path) = arguments.get(1) else {
        eprintln!("usage: run MODULE.so [SIZE]");
        return ExitCode::from(2);
    };
    let open = arguments.get(2).and_then(|size| size.parse().ok()).unwrap_or(1);
    match run(path, open) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
