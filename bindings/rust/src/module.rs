//! Modules: what `tensmith compile` wrote.

use crate::{
    error::{check, text, Code, Error, Result},
    ffi, DataType,
};
use std::{ffi::CString, fmt, path::Path, ptr::NonNull};

/// A size in a signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dim {
    Fixed(i64),
    /// A symbol, as "batch", or an expression of symbols: any size that agrees with the others.
    Open(String),
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Dim::Fixed(size) => write!(f, "{size}"),
            Dim::Open(symbol) => f.write_str(symbol),
        }
    }
}

/// An input or an output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    pub name: String,
    pub data_type: DataType,
    /// `None`: not even the number of dimensions is known.
    pub dims: Option<Vec<Dim>>,
    pub(crate) is_tensor: bool,
}

/// May be shared between threads.
pub struct Module {
    handle: NonNull<ffi::ts_module>,
}

// SAFETY: the C API allows every function on several threads at once.
unsafe impl Send for Module {}
unsafe impl Sync for Module {}

impl Drop for Module {
    fn drop(&mut self) {
        // SAFETY: the handle is ours; sessions keep what they need.
        unsafe { ffi::ts_module_free(self.handle.as_ptr()) }
    }
}

impl Module {
    /// Reads a module, and checks version, integrity and what it needs of the processor.
    ///
    /// # Safety
    /// A module holds native code, which a session runs. Load modules only from those that you would take a shared library
    /// from.
    pub unsafe fn load(path: impl AsRef<Path>) -> Result<Self> {
        use std::os::unix::ffi::OsStrExt;
        let path = CString::new(path.as_ref().as_os_str().as_bytes())
            .map_err(|_| Error::new(Code::InvalidArgument, "the path has a zero byte in it"))?;
        let mut handle = std::ptr::null_mut();
        check(ffi::ts_module_load(path.as_ptr(), std::ptr::null(), &mut handle))?;
        Self::own(handle)
    }

    /// The same of a module in memory, which is copied.
    ///
    /// # Safety
    /// As of [`Module::load`].
    pub unsafe fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let mut handle = std::ptr::null_mut();
        check(ffi::ts_module_load_bytes(bytes.as_ptr().cast(), bytes.len(), std::ptr::null(), &mut handle))?;
        Self::own(handle)
    }

    fn own(handle: *mut ffi::ts_module) -> Result<Self> {
        let handle = NonNull::new(handle).ok_or_else(|| Error::new(Code::Internal, "the library gave no module"))?;
        Ok(Module { handle })
    }

    pub(crate) fn handle(&self) -> *mut ffi::ts_module {
        self.handle.as_ptr()
    }

    pub fn inputs(&self) -> Vec<Port> {
        // SAFETY: the numbers are below the count.
        unsafe {
            (0..ffi::ts_module_input_count(self.handle()))
                .map(|index| port(ffi::ts_module_input(self.handle(), index)))
                .collect()
        }
    }

    pub fn outputs(&self) -> Vec<Port> {
        // SAFETY: the numbers are below the count.
        unsafe {
            (0..ffi::ts_module_output_count(self.handle()))
                .map(|index| port(ffi::ts_module_output(self.handle(), index)))
                .collect()
        }
    }

    /// All else that is known of it, as JSON: producer, target, kernels, memory.
    pub fn describe(&self) -> Result<String> {
        let mut json = std::ptr::null_mut();
        // SAFETY: the text is ours, and is freed once it is copied.
        unsafe {
            check(ffi::ts_module_describe(self.handle(), &mut json))?;
            let description = text(json);
            ffi::ts_string_free(json);
            Ok(description)
        }
    }
}

/// # Safety
/// `port` was given by a module that is alive.
unsafe fn port(port: ffi::ts_port) -> Port {
    let dims = usize::try_from(port.rank).ok().map(|rank| (0..rank).map(|i| dim(text(*port.dims.add(i)))).collect());
    let data_type = DataType(port.element);
    Port { name: text(port.name), data_type, dims, is_tensor: port.kind == 0 && data_type != DataType::STRING }
}

fn dim(text: String) -> Dim {
    text.parse().map(Dim::Fixed).unwrap_or(Dim::Open(text))
}
