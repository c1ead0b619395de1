//! The bits of the C API, on the cases in the folder TENSMITH_CASES (tests/bindings/drawn_cases.py makes them).

use std::{env, fs, path::PathBuf, thread};
use tensmith::{Code, DataType, Dim, Module, Session, SessionOptions, Tensor};

fn folder(case: &str) -> PathBuf {
    let cases = env::var("TENSMITH_CASES")
        .expect("TENSMITH_CASES names the folder of the cases: tests/bindings/drawn_cases.py makes it");
    PathBuf::from(cases).join(case)
}

fn load(case: &str) -> Module {
    unsafe { Module::load(folder(case).join("module.so")) }.unwrap()
}

fn session(module: &Module) -> Session {
    Session::new(module, &SessionOptions { threads: 2, ..Default::default() }).unwrap()
}

struct Stored {
    name: String,
    data_type: String,
    shape: Vec<i64>,
    bytes: Vec<u8>,
}

fn stored(case: &str, kind: &str) -> Vec<Stored> {
    let list = fs::read_to_string(folder(case).join("case.txt")).unwrap();
    list.lines()
        .map(|line| line.split(' ').collect::<Vec<_>>())
        .filter(|words| words[0] == kind)
        .map(|words| Stored {
            name: words[1].into(),
            data_type: words[2].into(),
            shape: words[3].split(',').filter(|size| *size != "-").map(|size| size.parse().unwrap()).collect(),
            bytes: fs::read(folder(case).join(words[4])).unwrap(),
        })
        .collect()
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
}
fn integers(bytes: &[u8]) -> Vec<i64> {
    bytes.chunks_exact(8).map(|b| i64::from_le_bytes(b.try_into().unwrap())).collect()
}

fn tensor(stored: &Stored) -> Tensor<'static> {
    match stored.data_type.as_str() {
        "f32" => Tensor::from_slice(&stored.shape, &floats(&stored.bytes)).unwrap(),
        "i64" => Tensor::from_slice(&stored.shape, &integers(&stored.bytes)).unwrap(),
        other => panic!("no input is {other}"),
    }
}

#[test]
fn gives_the_bits_of_c() {
    for case in ["pictures", "rows", "words"] {
        let module = load(case);
        let (inputs, expected) = (stored(case, "input"), stored(case, "output"));
        assert_eq!(
            module.inputs().iter().map(|p| &p.name).collect::<Vec<_>>(),
            inputs.iter().map(|s| &s.name).collect::<Vec<_>>()
        );
        let tensors: Vec<_> = inputs.iter().map(tensor).collect();
        let outputs = session(&module).run(&tensors.iter().collect::<Vec<_>>()).unwrap();
        assert_eq!(outputs.len(), expected.len());
        for ((output, stored), port) in outputs.iter().zip(&expected).zip(module.outputs()) {
            assert_eq!(port.name, stored.name);
            assert_eq!(output.data_type().name(), stored.data_type);
            assert_eq!(output.shape(), stored.shape);
            assert_eq!(output.bytes(), stored.bytes, "{case}: {}", stored.name);
        }
    }
}

#[test]
fn lists_inputs_and_outputs() {
    let module = load("words");
    let (inputs, outputs) = (module.inputs(), module.outputs());
    assert_eq!((inputs[0].name.as_str(), inputs[0].data_type), ("words", DataType::I64));
    assert_eq!(inputs[0].dims, Some(vec![Dim::Open("length".into())]));
    assert_eq!(inputs[1].dims, Some(vec![]));
    assert_eq!(outputs[0].dims, Some(vec![Dim::Open("length".into()), Dim::Fixed(12)]));
    assert!(module.describe().unwrap().starts_with('{'));
}

#[test]
fn one_module_serves_all_sizes() {
    let module = load("rows");
    let session = session(&module);
    let stored = &stored("rows", "input")[0];
    let (values, width) = (floats(&stored.bytes), stored.shape[1]);
    for n in [0, 1, 3, 5] {
        let x = Tensor::borrow(&[n, width], &values[..(n * width) as usize]).unwrap();
        let y = session.run(&[&x]).unwrap().remove(0);
        assert_eq!(y.shape(), [n, 32]);
        for row in y.as_slice::<f32>().unwrap().chunks(32) {
            assert!((row.iter().sum::<f32>() - 1.0).abs() < 1e-5);
        }
    }
}

#[test]
fn neither_inputs_nor_outputs_are_copied() {
    let session = session(&load("rows"));
    let values = vec![0.25f32; 2 * 16];
    let x = Tensor::borrow(&[2, 16], &values).unwrap();
    assert_eq!(x.as_slice::<f32>().unwrap().as_ptr(), values.as_ptr());
    let mut written = vec![0.0f32; 2 * 32];
    let mut y = Tensor::borrow_mut(&[2, 32], &mut written).unwrap();
    session.run_into(&[&x], &mut [&mut y]).unwrap();
    drop(y);
    assert_eq!(written, session.run(&[&x]).unwrap()[0].as_slice::<f32>().unwrap());
}

/// Results outlive what was borrowed for the inputs.
#[test]
fn an_output_that_is_an_input_has_memory_of_its_own() {
    let session = session(&load("words"));
    let scale = Tensor::from_slice(&[], &[1.0f32]).unwrap();
    let words = vec![3i64, 1, 4];
    let outputs = session.run(&[&Tensor::borrow(&[3], &words).unwrap(), &scale]).unwrap();
    let same = outputs[3].as_slice::<i64>().unwrap();
    assert_ne!(same.as_ptr(), words.as_ptr());
    drop(words);
    assert_eq!(same, [3, 1, 4]);
}

#[test]
fn sessions_run_on_several_threads() {
    let session = session(&load("pictures"));
    let (x, expected) = (tensor(&stored("pictures", "input")[0]), &stored("pictures", "output")[0].bytes);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| assert_eq!(session.run(&[&x]).unwrap()[0].bytes(), expected));
        }
    });
}

#[test]
fn failures_are_errors_in_words() {
    let missing = unsafe { Module::load("/no/such/module.so") }.err().unwrap();
    assert_eq!(missing.code(), Code::Io);
    assert!(missing.to_string().contains("/no/such/module.so"), "{missing}");
    let damaged = unsafe { Module::from_bytes(b"not a module") }.err().unwrap();
    assert_eq!(damaged.code(), Code::InvalidModule);

    let module = load("rows");
    let session = session(&module);
    let narrow = Tensor::zeros(DataType::F32, &[2, 15]).unwrap();
    let refused = session.run(&[&narrow]).err().unwrap();
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert!(refused.message().contains('x'), "{refused}");
    let integers = Tensor::zeros(DataType::I64, &[2, 16]).unwrap();
    assert_eq!(session.run(&[&integers]).err().unwrap().code(), Code::InvalidArgument);
    assert_eq!(session.run(&[]).err().unwrap().code(), Code::InvalidArgument);

    assert!(Tensor::borrow(&[2, 3], &[0.0f32; 5]).is_err());
    assert!(Tensor::borrow(&[-1], &[0.0f32; 5]).is_err());
    assert!(Tensor::zeros(DataType::F32, &[i64::MAX, i64::MAX]).is_err());
    assert!(narrow.as_slice::<f64>().unwrap_err().message().contains("f32"));
    let (x, mut y) =
        (Tensor::zeros(DataType::F32, &[2, 16]).unwrap(), Tensor::borrow(&[2, 32], &[0.0f32; 64]).unwrap());
    assert!(session.run_into(&[&x], &mut [&mut y]).is_err());
    assert!(session.run_into(&[&x], &mut []).is_err());
}
