// Package reference reads an OpenAPI document for the pages of the reference: operations and webhooks in the order of the document,
// their fields with all rules of the schemas, examples, and the error codes with their responses. Descriptions stay Markdown.
//
// Each operation, field and header has a unique ID made of names, such as readDailyActivity-200-data-steps, so that links last as
// long as the names.
package reference
