package telemetry

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// maxLine is the size of the longest event in the log, in bytes. Its attributes may hold more: an error can be joined of thousands.
const maxLine = 16 << 10

// bounded returns the line of an event. If it is longer than maxLine, it returns the same event with shorter texts and lists.
func bounded(line []byte) []byte {
	for most := maxLine / 4; len(line) > maxLine && most > 0; most /= 2 {
		if shorter := shortened(line, most); len(shorter) <= maxLine {
			return shorter
		}
	}
	if len(line) > maxLine { // thousands of attributes
		return []byte(`{"level":"ERROR","msg":"an event was too long for the log"}` + "\n")
	}
	return line
}

func shortened(line []byte, most int) []byte {
	var event map[string]any
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.UseNumber()
	if err := decoder.Decode(&event); err != nil {
		return line // not reached: slog writes objects
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(cut(event, most)); err != nil {
		return line // not reached: it was JSON
	}
	return out.Bytes()
}

// cut shortens texts to most bytes, and lists to as many elements as have room there.
func cut(value any, most int) any {
	switch value := value.(type) {
	case string:
		if len(value) > most {
			return fmt.Sprintf("%s… (%d bytes in all)", strings.ToValidUTF8(value[:most], ""), len(value))
		}
	case []any:
		value = value[:min(len(value), most/64)]
		for i, element := range value {
			value[i] = cut(element, most)
		}
		return value
	case map[string]any:
		for name, element := range value {
			value[name] = cut(element, most)
		}
	}
	return value
}
