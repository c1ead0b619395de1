//! Tensors: a type of elements, a shape, and row-major elements in host memory.
//!
//! A tensor lies on memory of the library's, or on a slice of the caller's that it borrows for `'a`. It is not `Clone`,
//! and the library gives results in memory of their own; so what a `&mut Tensor` leads to is led to by nothing else, and
//! slices of its elements are sound.

use crate::{
    error::{check, text, Code, Error, Result},
    ffi,
};
use std::{ffi::c_void, fmt, marker::PhantomData, ptr::NonNull};

/// A type of elements, numbered as ONNX numbers them.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct DataType(pub(crate) u32);

impl DataType {
    pub const F32: DataType = DataType(1);
    pub const U8: DataType = DataType(2);
    pub const I8: DataType = DataType(3);
    pub const U16: DataType = DataType(4);
    pub const I16: DataType = DataType(5);
    pub const I32: DataType = DataType(6);
    pub const I64: DataType = DataType(7);
    pub const STRING: DataType = DataType(8);
    pub const BOOL: DataType = DataType(9);
    pub const F16: DataType = DataType(10);
    pub const F64: DataType = DataType(11);
    pub const U32: DataType = DataType(12);
    pub const U64: DataType = DataType(13);
    pub const BF16: DataType = DataType(16);

    /// "f32".
    pub fn name(self) -> String {
        // SAFETY: the library answers every number with a text of its own.
        unsafe { text(ffi::ts_type_name(self.0)) }
    }
    /// Of one element; 0 of strings.
    pub fn bytes(self) -> usize {
        // SAFETY: takes any number.
        unsafe { ffi::ts_type_bytes(self.0) }
    }
}

impl fmt::Debug for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}
impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

mod sealed {
    pub trait Sealed {}
}

/// Types of Rust that any bits are a value of. Elements of other types, `bool` among them, are reached by
/// [`Tensor::bytes`].
pub trait Element: Copy + sealed::Sealed + 'static {
    const TYPE: DataType;
}
macro_rules! elements {
    ($($rust:ty => $name:ident),*) => {$(
        impl sealed::Sealed for $rust {}
        impl Element for $rust {
            const TYPE: DataType = DataType::$name;
        }
    )*};
}
elements!(f32 => F32, f64 => F64, u8 => U8, i8 => I8, u16 => U16, i16 => I16, u32 => U32, i32 => I32, u64 => U64, i64 => I64);

pub struct Tensor<'a> {
    handle: NonNull<ffi::ts_tensor>,
    writable: bool,
    memory: PhantomData<&'a mut [u8]>,
}

// SAFETY: handles are counted atomically, and elements are written through `&mut` alone.
unsafe impl Send for Tensor<'_> {}
unsafe impl Sync for Tensor<'_> {}

impl Drop for Tensor<'_> {
    fn drop(&mut self) {
        // SAFETY: the handle is ours.
        unsafe { ffi::ts_tensor_free(self.handle.as_ptr()) }
    }
}

/// The number of elements of a shape.
fn count(shape: &[i64]) -> Result<usize> {
    shape
        .iter()
        .try_fold(1usize, |product, &size| product.checked_mul(usize::try_from(size).ok()?))
        .ok_or_else(|| Error::new(Code::InvalidArgument, format!("no tensor can have the shape {shape:?}")))
}

fn fits<T>(shape: &[i64], data: &[T]) -> Result<()> {
    let expected = count(shape)?;
    if expected == data.len() {
        return Ok(());
    }
    Err(Error::new(
        Code::InvalidArgument,
        format!("the shape {shape:?} has {expected} elements, but the slice has {}", data.len()),
    ))
}

impl Tensor<'static> {
    /// Of the library's memory, all zero.
    pub fn zeros(data_type: DataType, shape: &[i64]) -> Result<Self> {
        count(shape)?;
        let mut handle = std::ptr::null_mut();
        // SAFETY: shape and its length belong together.
        check(unsafe { ffi::ts_tensor_create(data_type.0, shape.as_ptr(), shape.len(), &mut handle) })?;
        let mut tensor = Tensor::own(handle)?;
        tensor.raw_mut().fill(0);
        Ok(tensor)
    }

    /// A copy of the slice.
    pub fn from_slice<T: Element>(shape: &[i64], data: &[T]) -> Result<Self> {
        fits(shape, data)?;
        let mut tensor = Tensor::zeros(T::TYPE, shape)?;
        tensor.as_mut_slice()?.copy_from_slice(data);
        Ok(tensor)
    }

    /// Takes the handle over.
    pub(crate) fn own(handle: *mut ffi::ts_tensor) -> Result<Self> {
        let handle = NonNull::new(handle).ok_or_else(|| Error::new(Code::Internal, "the library gave no tensor"))?;
        Ok(Tensor { handle, writable: true, memory: PhantomData })
    }
}

impl<'a> Tensor<'a> {
    /// On the slice, without a copy.
    pub fn borrow<T: Element>(shape: &[i64], data: &'a [T]) -> Result<Self> {
        fits(shape, data)?;
        Self::on(T::TYPE, shape, data.as_ptr() as *mut c_void, false)
    }

    /// On the slice, without a copy; a run may write its result there.
    pub fn borrow_mut<T: Element>(shape: &[i64], data: &'a mut [T]) -> Result<Self> {
        fits(shape, data)?;
        Self::on(T::TYPE, shape, data.as_mut_ptr() as *mut c_void, true)
    }

    /// On the bytes of elements of any type but strings, without a copy. They must be aligned as the elements are.
    pub fn borrow_bytes(data_type: DataType, shape: &[i64], bytes: &'a [u8]) -> Result<Self> {
        let size = data_type.bytes();
        if size == 0
            || count(shape)?.checked_mul(size) != Some(bytes.len())
            || bytes.as_ptr() as usize % size.min(8) != 0
        {
            return Err(Error::new(
                Code::InvalidArgument,
                format!(
                    "{} bytes at {:p} are no {data_type}{shape:?}: check their number and their alignment",
                    bytes.len(),
                    bytes
                ),
            ));
        }
        Self::on(data_type, shape, bytes.as_ptr() as *mut c_void, false)
    }

    fn on(data_type: DataType, shape: &[i64], data: *mut c_void, writable: bool) -> Result<Self> {
        let mut handle = std::ptr::null_mut();
        // SAFETY: the callers have checked that the memory holds the shape; `'a` keeps it. Without a function that
        // releases it the library keeps no reference to it past a run.
        check(unsafe {
            ffi::ts_tensor_borrow(
                data_type.0,
                shape.as_ptr(),
                shape.len(),
                data,
                None,
                std::ptr::null_mut(),
                &mut handle,
            )
        })?;
        let handle = NonNull::new(handle).ok_or_else(|| Error::new(Code::Internal, "the library gave no tensor"))?;
        Ok(Tensor { handle, writable, memory: PhantomData })
    }

    pub(crate) fn handle(&self) -> *mut ffi::ts_tensor {
        self.handle.as_ptr()
    }

    pub fn data_type(&self) -> DataType {
        // SAFETY: the handle is alive.
        DataType(unsafe { ffi::ts_tensor_type(self.handle()) })
    }
    pub fn shape(&self) -> &[i64] {
        // SAFETY: the shape lives as long as the tensor does; it may be null where the rank is 0.
        unsafe { slice(ffi::ts_tensor_shape(self.handle()), ffi::ts_tensor_rank(self.handle())) }
    }
    /// The number of elements.
    pub fn len(&self) -> usize {
        // SAFETY: the handle is alive.
        unsafe { ffi::ts_tensor_size(self.handle()) as usize }
    }
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The elements, without a copy. InvalidArgument where they are of another type.
    pub fn as_slice<T: Element>(&self) -> Result<&[T]> {
        self.is_of(T::TYPE)?;
        // SAFETY: there are `len` elements of that type, and none is written while `self` is borrowed.
        Ok(unsafe { slice(ffi::ts_tensor_data(self.handle()) as *const T, self.len()) })
    }

    /// The elements to be written, without a copy. InvalidArgument where they are of another type, or lie in memory that was
    /// borrowed for reading.
    pub fn as_mut_slice<T: Element>(&mut self) -> Result<&mut [T]> {
        self.is_of(T::TYPE)?;
        self.is_writable()?;
        if self.is_empty() {
            return Ok(&mut []);
        }
        // SAFETY: as above; nothing else leads to the memory (see the head of this file).
        Ok(unsafe { std::slice::from_raw_parts_mut(ffi::ts_tensor_data(self.handle()) as *mut T, self.len()) })
    }

    /// The bytes of the elements, whatever their type. A `bool` is one byte, 0 or 1.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: as of `as_slice`; any byte may be read.
        unsafe { slice(ffi::ts_tensor_data(self.handle()) as *const u8, self.len() * self.data_type().bytes()) }
    }

    fn raw_mut(&mut self) -> &mut [u8] {
        let bytes = self.len() * self.data_type().bytes();
        if bytes == 0 {
            return &mut [];
        }
        // SAFETY: as of `as_mut_slice`.
        unsafe { std::slice::from_raw_parts_mut(ffi::ts_tensor_data(self.handle()) as *mut u8, bytes) }
    }

    pub(crate) fn is_writable(&self) -> Result<()> {
        if self.writable {
            return Ok(());
        }
        Err(Error::new(
            Code::InvalidArgument,
            "the tensor is on memory that was borrowed for reading; make it by Tensor::borrow_mut",
        ))
    }

    fn is_of(&self, expected: DataType) -> Result<()> {
        if self.data_type() == expected {
            return Ok(());
        }
        Err(Error::new(
            Code::InvalidArgument,
            format!("the tensor's elements are {}, not {expected}", self.data_type()),
        ))
    }
}

impl fmt::Debug for Tensor<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:?}", self.data_type(), self.shape())
    }
}

/// # Safety
/// As of `slice::from_raw_parts`, but that `data` may be null where `count` is 0.
unsafe fn slice<'b, T>(data: *const T, count: usize) -> &'b [T] {
    if count == 0 {
        return &[];
    }
    std::slice::from_raw_parts(data, count)
}
