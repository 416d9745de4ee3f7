//! The nodes and buffers of a projection's columns.

use std::ops::Range;

use arrow_schema::{DataType, Field, FieldRef, Fields};

use super::{
    super::{Projection, children::Children},
    blob::BlobSpan,
    layout::{BatchLayout, FieldSpan, Node, Views},
};
use crate::{Error, Result};

/// The columns to decode, as nodes and buffers of a [`BatchLayout`].
#[derive(Debug, Default)]
pub(super) struct Selection {
    pub(super) nodes: Vec<Node>,
    /// Relative to the body.
    pub(super) buffers: Vec<Range<u64>>,
    /// Counts of view buffers.
    pub(super) variadic: Vec<i64>,
    pub(super) string_views: Vec<Views>,
}

impl Selection {
    /// The small columns of a projection.
    pub(super) fn of_small(
        projection: &Projection,
        layout: &BatchLayout,
        fields: &Fields,
        spans: &[FieldSpan],
    ) -> Result<Self> {
        let mut selection = Self::default();
        for small in &projection.small {
            let (field, span) = column(fields, spans, small.column)?;
            selection.add_some(layout, field, span, small.children.as_ref())?;
        }
        Ok(selection)
    }

    /// Adds a field, or a struct with some of its children.
    fn add_some(
        &mut self,
        layout: &BatchLayout,
        field: &Field,
        span: &FieldSpan,
        kept: Option<&Children>,
    ) -> Result<()> {
        let (Some(kept), DataType::Struct(children)) = (kept, field.data_type()) else {
            return self.add_field(layout, field, span);
        };
        let spans = layout.child_spans(span, children)?;
        self.add_struct(layout, span)?;
        for (child, inner) in kept.iter() {
            let (child, span) = column(children, &spans, child)?;
            self.add_some(layout, child, span, inner)?;
        }
        Ok(())
    }

    /// Adds a whole field.
    pub(super) fn add_field(
        &mut self,
        layout: &BatchLayout,
        field: &Field,
        span: &FieldSpan,
    ) -> Result<()> {
        self.string_views.extend(layout.string_views(field, span)?);
        self.add_span(layout, span)
    }

    /// Adds a field that holds no views.
    pub(super) fn add_span(&mut self, layout: &BatchLayout, span: &FieldSpan) -> Result<()> {
        for index in span.nodes.clone() {
            self.nodes.push(layout.node(index)?);
        }
        for index in span.buffers.clone() {
            self.buffers.push(layout.buffer(index)?);
        }
        let counts = layout.variadic.get(span.variadic.clone()).unwrap_or_default();
        self.variadic.extend(counts.iter().map(|n| *n as i64));
        Ok(())
    }

    /// Adds a struct's own node and validity; its children are added after it.
    pub(super) fn add_struct(&mut self, layout: &BatchLayout, span: &FieldSpan) -> Result<()> {
        self.nodes.push(layout.node(span.nodes.start)?);
        self.buffers.push(layout.buffer(span.buffers.start)?);
        Ok(())
    }
}

/// The nodes and buffers of a projection's blob columns.
pub(super) fn blob_spans(
    projection: &Projection,
    layout: &BatchLayout,
    fields: &Fields,
    spans: &[FieldSpan],
) -> Result<Vec<BlobSpan>> {
    let mut found = Vec::with_capacity(projection.blobs.len());
    for blob in &projection.blobs {
        let (field, span) = column(fields, spans, blob.column)?;
        let (mut data_type, mut leaf, mut parents) = (field.data_type(), span.clone(), Vec::new());
        for child in &blob.path {
            let DataType::Struct(children) = data_type else { return Err(missing()) };
            let spans = layout.child_spans(&leaf, children)?;
            let (field, span) = column(children, &spans, *child)?;
            parents.push(std::mem::replace(&mut leaf, span.clone()));
            data_type = field.data_type();
        }
        found.push(BlobSpan { parents, leaf, kind: blob.kind });
    }
    Ok(found)
}

fn missing() -> Error {
    Error::schema("", "a projected column is missing from this shard")
}

fn column<'a, 'b>(
    fields: &'a Fields,
    spans: &'b [FieldSpan],
    column: usize,
) -> Result<(&'a FieldRef, &'b FieldSpan)> {
    fields.get(column).zip(spans.get(column)).ok_or_else(missing)
}
