//! Programs of other forms than one source or a binary: intermediate language, and sources with
//! headers that were given to the compiler by name. Refuses to read files.

use crate::error::{ClError, checked};
use crate::{Program, Session};
use clscope_trace::codes as cl;
use std::ffi::CString;
use std::sync::Arc;

impl Session {
    /// Builds a program from SPIR-V.
    ///
    /// # Errors
    /// As for [`Session::build`]; [`ClError::Missing`] where the loader is older than OpenCL 2.1.
    pub fn build_il(&self, name: &str, il: &[u8], options: &str) -> Result<Program, ClError> {
        let create = self.api.create_program_il.ok_or_else(|| ClError::Missing {
            call: "clCreateProgramWithIL",
            object: name.to_owned(),
        })?;
        let mut code = 0;
        // SAFETY: so many bytes, which outlive the call.
        let handle = unsafe { create(self.context, il.as_ptr().cast(), il.len(), &mut code) };
        checked("clCreateProgramWithIL", name, code)?;
        self.finish_build(Program { api: Arc::clone(&self.api), handle }, name, options)
    }

    /// Compiles a source with headers, each under the name that the source includes it by, and
    /// links it.
    ///
    /// # Errors
    /// As for [`Session::build`].
    pub fn build_with_headers(
        &self,
        name: &str,
        source: &str,
        headers: &[(String, String)],
        options: &str,
    ) -> Result<Program, ClError> {
        let text = |what: &str| {
            CString::new(what).map_err(|_| ClError::Call {
                call: "clCompileProgram",
                object: name.to_owned(),
                code: cl::CL_INVALID_BUILD_OPTIONS,
            })
        };
        let program = self.unbuilt(name, source)?;
        let programs = headers
            .iter()
            .map(|(path, text)| self.unbuilt(path, text))
            .collect::<Result<Vec<_>, _>>()?;
        let names =
            headers.iter().map(|(path, _)| text(path)).collect::<Result<Vec<CString>, _>>()?;
        let handles: Vec<_> = programs.iter().map(|p| p.handle).collect();
        let pointers: Vec<_> = names.iter().map(|n| n.as_ptr()).collect();
        let options = text(options)?;
        let count = u32::try_from(handles.len()).unwrap_or(u32::MAX);
        // The arrays of no headers are NULL.
        let some = |empty: bool| !empty;
        // SAFETY: as many headers as names; all of them, the options and the device outlive the
        // call, which blocks without a callback.
        let code = unsafe {
            (self.api.compile_program)(
                program.handle,
                1,
                &self.device.id,
                options.as_ptr(),
                count,
                if some(handles.is_empty()) { handles.as_ptr() } else { std::ptr::null() },
                if some(pointers.is_empty()) { pointers.as_ptr() } else { std::ptr::null() },
                None,
                std::ptr::null_mut(),
            )
        };
        if code != 0 {
            return Err(self.build_error(&program, name, code));
        }
        let mut code = 0;
        // SAFETY: one compiled program and one device; no options and no callback: it blocks.
        let handle = unsafe {
            (self.api.link_program)(
                self.context,
                1,
                &self.device.id,
                std::ptr::null(),
                1,
                &program.handle,
                None,
                std::ptr::null_mut(),
                &mut code,
            )
        };
        match code {
            0 => Ok(Program { api: Arc::clone(&self.api), handle }),
            _ if handle.is_null() => checked("clLinkProgram", name, code).map(|()| program),
            _ => {
                let linked = Program { api: Arc::clone(&self.api), handle };
                Err(self.build_error(&linked, name, code))
            }
        }
    }

    fn unbuilt(&self, name: &str, source: &str) -> Result<Program, ClError> {
        let (pointer, length) = (source.as_ptr().cast(), source.len());
        let mut code = 0;
        // SAFETY: one string with its length; both outlive the call.
        let handle =
            unsafe { (self.api.create_program)(self.context, 1, &pointer, &length, &mut code) };
        checked("clCreateProgramWithSource", name, code)?;
        Ok(Program { api: Arc::clone(&self.api), handle })
    }
}
