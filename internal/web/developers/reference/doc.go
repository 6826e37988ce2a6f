// Package reference reads an OpenAPI document into what a page shows of it: operations and webhooks in the order of the
// document, their fields with everything that the schemas demand of them, examples, and the error codes with the answers that
// have them. Descriptions stay Markdown.
//
// Each operation, field and header has an ID that is one in the document and made of names alone, such as
// readDailyActivity-200-data-steps: links to it last as long as the name.
package reference
