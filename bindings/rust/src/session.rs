//! Sessions: a module ready to run, with its threads and its memory.

use crate::{
    error::{check, Code, Error, Result},
    ffi, Module, Tensor,
};
use std::ptr::NonNull;

/// What a session may use. The default: all processors that the process may use, the limits of the library.
#[derive(Clone, Debug, Default)]
pub struct SessionOptions {
    /// 0: as many as processors.
    pub threads: i32,
    /// A run fails where a NaN or an infinity comes up, and says where.
    pub check_finite: bool,
    /// Bytes that runs may hold at a time; 0: the machine's.
    pub memory_limit: i64,
    /// Seconds of one run; 0: an hour.
    pub time_limit: f64,
    /// Of random operators that have none of their own.
    pub seed: Option<u64>,
}

/// May be shared between threads, which may run it at the same time.
pub struct Session {
    handle: NonNull<ffi::ts_session>,
    outputs: usize,
}

// SAFETY: the C API allows a session to run on several threads at once.
unsafe impl Send for Session {}
unsafe impl Sync for Session {}

impl Drop for Session {
    fn drop(&mut self) {
        // SAFETY: the handle is ours.
        unsafe { ffi::ts_session_free(self.handle.as_ptr()) }
    }
}

/// This crate gives and takes tensors of numbers.
fn takes_tensors(module: &Module) -> Result<()> {
    match module.inputs().into_iter().chain(module.outputs()).find(|port| !port.is_tensor) {
        None => Ok(()),
        Some(port) => Err(Error::new(
            Code::Unsupported,
            format!(
                "'{}' is a sequence, a map, an optional value or of strings: use the C API for this module",
                port.name
            ),
        )),
    }
}

impl Session {
    pub fn new(module: &Module, options: &SessionOptions) -> Result<Self> {
        takes_tensors(module)?;
        let settings = ffi::ts_session_options {
            size: std::mem::size_of::<ffi::ts_session_options>(),
            threads: options.threads,
            check_finite: options.check_finite.into(),
            max_depth: 0,
            max_instructions: 0,
            memory_limit: options.memory_limit,
            time_limit: options.time_limit,
            keep_limit: 0,
            seed: options.seed.as_ref().map_or(std::ptr::null(), |seed| seed),
        };
        let mut handle = std::ptr::null_mut();
        // SAFETY: the seed is read within the call; the session keeps the module alive.
        check(unsafe { ffi::ts_session_create(module.handle(), &settings, &mut handle) })?;
        let handle = NonNull::new(handle).ok_or_else(|| Error::new(Code::Internal, "the library gave no session"))?;
        Ok(Session { handle, outputs: module.outputs().len() })
    }

    pub fn threads(&self) -> i32 {
        // SAFETY: the handle is alive.
        unsafe { ffi::ts_session_threads(self.handle.as_ptr()) }
    }

    /// Runs once: a tensor for each input, in order, gives one for each output.
    pub fn run(&self, inputs: &[&Tensor<'_>]) -> Result<Vec<Tensor<'static>>> {
        let mut outputs = vec![std::ptr::null_mut(); self.outputs];
        self.call(inputs, &mut outputs)?;
        outputs.into_iter().map(Tensor::own).collect()
    }

    /// Runs once, and writes the results into `outputs`, whose types and shapes must be those of the results.
    pub fn run_into(&self, inputs: &[&Tensor<'_>], outputs: &mut [&mut Tensor<'_>]) -> Result<()> {
        if outputs.len() != self.outputs {
            return Err(Error::new(
                Code::InvalidArgument,
                format!("the module has {} outputs, but {} tensors were given for them", self.outputs, outputs.len()),
            ));
        }
        outputs.iter().try_for_each(|output| output.is_writable())?;
        let mut handles: Vec<_> = outputs.iter().map(|output| output.handle()).collect();
        self.call(inputs, &mut handles)
    }

    fn call(&self, inputs: &[&Tensor<'_>], outputs: &mut [*mut ffi::ts_tensor]) -> Result<()> {
        let handles: Vec<_> = inputs.iter().map(|input| input.handle()).collect();
        // SAFETY: all handles are alive; outputs that are written into are borrowed for writing.
        check(unsafe {
            ffi::ts_session_run(
                self.handle.as_ptr(),
                handles.as_ptr(),
                handles.len(),
                outputs.as_mut_ptr(),
                outputs.len(),
            )
        })
    }
}
