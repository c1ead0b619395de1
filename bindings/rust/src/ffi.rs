//! The declarations of `tensmith/tensmith.h` that this crate calls. Layouts are the header's; a struct that the caller
//! fills begins with its size, so that a newer library reads no more of it than there is.

#![allow(non_camel_case_types)]

use std::ffi::{c_char, c_int, c_void};

macro_rules! opaque {
    ($($name:ident),*) => {$(
        #[repr(C)]
        pub struct $name {
            _private: [u8; 0],
        }
    )*};
}
opaque!(ts_status, ts_module, ts_session, ts_tensor);

#[repr(C)]
pub struct ts_load_options {
    pub size: usize,
    pub verify_weights: c_int,
    pub module_bytes: u64,
    pub only_described: c_int,
}

#[repr(C)]
pub struct ts_port {
    pub name: *const c_char,
    pub kind: u32,
    pub element: u32,
    pub rank: i64,
    pub dims: *const *const c_char,
}

#[repr(C)]
pub struct ts_session_options {
    pub size: usize,
    pub threads: c_int,
    pub check_finite: c_int,
    pub max_depth: i64,
    pub max_instructions: i64,
    pub memory_limit: i64,
    pub time_limit: f64,
    pub keep_limit: i64,
    pub seed: *const u64,
}

extern "C" {
    pub fn ts_status_get_code(status: *const ts_status) -> u32;
    pub fn ts_status_message(status: *const ts_status) -> *const c_char;
    pub fn ts_status_free(status: *mut ts_status);
    pub fn ts_version() -> *const c_char;
    pub fn ts_type_name(element: u32) -> *const c_char;
    pub fn ts_type_bytes(element: u32) -> usize;
    pub fn ts_string_free(text: *mut c_char);

    pub fn ts_tensor_create(element: u32, shape: *const i64, rank: usize, out: *mut *mut ts_tensor) -> *mut ts_status;
    pub fn ts_tensor_borrow(
        element: u32,
        shape: *const i64,
        rank: usize,
        data: *mut c_void,
        release: Option<extern "C" fn(*mut c_void)>,
        context: *mut c_void,
        out: *mut *mut ts_tensor,
    ) -> *mut ts_status;
    pub fn ts_tensor_free(tensor: *mut ts_tensor);
    pub fn ts_tensor_type(tensor: *const ts_tensor) -> u32;
    pub fn ts_tensor_rank(tensor: *const ts_tensor) -> usize;
    pub fn ts_tensor_shape(tensor: *const ts_tensor) -> *const i64;
    pub fn ts_tensor_size(tensor: *const ts_tensor) -> i64;
    pub fn ts_tensor_data(tensor: *const ts_tensor) -> *mut c_void;

    pub fn ts_module_load(
        path: *const c_char,
        options: *const ts_load_options,
        out: *mut *mut ts_module,
    ) -> *mut ts_status;
    pub fn ts_module_load_bytes(
        bytes: *const c_void,
        size: usize,
        options: *const ts_load_options,
        out: *mut *mut ts_module,
    ) -> *mut ts_status;
    pub fn ts_module_free(module: *mut ts_module);
    pub fn ts_module_input_count(module: *const ts_module) -> usize;
    pub fn ts_module_output_count(module: *const ts_module) -> usize;
    pub fn ts_module_input(module: *const ts_module, index: usize) -> ts_port;
    pub fn ts_module_output(module: *const ts_module, index: usize) -> ts_port;
    pub fn ts_module_describe(module: *const ts_module, json: *mut *mut c_char) -> *mut ts_status;

    pub fn ts_session_create(
        module: *mut ts_module,
        options: *const ts_session_options,
        out: *mut *mut ts_session,
    ) -> *mut ts_status;
    pub fn ts_session_free(session: *mut ts_session);
    pub fn ts_session_threads(session: *const ts_session) -> c_int;
    pub fn ts_session_run(
        session: *mut ts_session,
        inputs: *const *mut ts_tensor,
        input_count: usize,
        outputs: *mut *mut ts_tensor,
        output_count: usize,
    ) -> *mut ts_status;
}
