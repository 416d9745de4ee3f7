//! The nodes and buffers of a projection's columns.

use std::ops::Range;

use arrow_schema::{DataType, Field, FieldRef, Fields};

use super::{
    super::Projection,
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
            match (&small.children, field.data_type()) {
                (Some(kept), DataType::Struct(children)) => {
                    let spans = layout.child_spans(span, children)?;
                    selection.add_struct(layout, span)?;
                    for (child, span) in
                        kept.iter().filter_map(|k| children.get(*k).zip(spans.get(*k)))
                    {
                        selection.add_field(layout, child, span)?;
                    }
                }
                _ => selection.add_field(layout, field, span)?,
            }
        }
        Ok(selection)
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
        let kind = blob.kind;
        found.push(match (blob.child, field.data_type()) {
            (Some(child), DataType::Struct(children)) => {
                let children = layout.child_spans(span, children)?;
                let leaf = children.get(child).cloned().ok_or_else(missing)?;
                BlobSpan { parent: Some(span.clone()), leaf, kind }
            }
            _ => BlobSpan { parent: None, leaf: span.clone(), kind },
        });
    }
    Ok(found)
}

fn missing() -> Error {
    Error::schema("", "a projected column is missing from this shard")
}

fn column<'a>(
    fields: &'a Fields,
    spans: &'a [FieldSpan],
    column: usize,
) -> Result<(&'a FieldRef, &'a FieldSpan)> {
    fields.get(column).zip(spans.get(column)).ok_or_else(missing)
}
