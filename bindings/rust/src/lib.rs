//! Loads and runs modules that Tensmith has compiled from neural networks.
//!
//! ```no_run
//! use tensmith::{Module, Session, SessionOptions, Tensor};
//!
//! # fn main() -> tensmith::Result<()> {
//! let module = unsafe { Module::load("model.so")? }; // native code: only from whom you trust
//! let session = Session::new(&module, &SessionOptions::default())?;
//! let picture = vec![0.0f32; 3 * 224 * 224];
//! let x = Tensor::borrow(&[1, 3, 224, 224], &picture)?; // no copy
//! let results = session.run(&[&x])?;
//! println!("{:?}", results[0].as_slice::<f32>()?); // no copy
//! # Ok(())
//! # }
//! ```
//!
//! A safe layer over the C API of `libtensmith_runtime`, without other dependencies. It gives and takes tensors of numbers.

mod error;
mod ffi;
mod module;
mod session;
mod tensor;

pub use error::{Code, Error, Result};
pub use module::{Dim, Module, Port};
pub use session::{Session, SessionOptions};
pub use tensor::{DataType, Element, Tensor};

/// "0.1.0" of the library in use.
pub fn version() -> String {
    // SAFETY: the text is the library's own.
    unsafe { error::text(ffi::ts_version()) }
}
