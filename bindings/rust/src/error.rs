//! Failures: the code and the message of a `ts_status`, which says what to do.

use crate::ffi;
use std::{ffi::CStr, fmt};

/// What kind of failure it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Code {
    InvalidArgument,
    InvalidModel,
    InvalidModule,
    Unsupported,
    ResourceExhausted,
    Io,
    Internal,
}

#[derive(Clone, Debug)]
pub struct Error {
    code: Code,
    message: String,
}

pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Error { code, message: message.into() }
    }
    pub fn code(&self) -> Code {
        self.code
    }
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

/// Takes the status over and frees it.
pub(crate) fn check(status: *mut ffi::ts_status) -> Result<()> {
    if status.is_null() {
        return Ok(());
    }
    // SAFETY: a status that is not null is ours, and has a message until it is freed.
    unsafe {
        let code = match ffi::ts_status_get_code(status) {
            1 => Code::InvalidArgument,
            2 => Code::InvalidModel,
            3 => Code::InvalidModule,
            4 => Code::Unsupported,
            5 => Code::ResourceExhausted,
            6 => Code::Io,
            _ => Code::Internal,
        };
        let message = text(ffi::ts_status_message(status));
        ffi::ts_status_free(status);
        Err(Error { code, message })
    }
}

/// # Safety
/// `text` is null or ends in a zero byte.
pub(crate) unsafe fn text(text: *const std::ffi::c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    CStr::from_ptr(text).to_string_lossy().into_owned()
}
