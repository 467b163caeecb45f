package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"assay/internal/engine"
)

// apiError is what a client is told when its request can't be served: OpenAI's
// error object, with the HTTP status as code, as llama-server has it.
type apiError struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"` // the field that is wrong; null when it is no single one
	Code    int     `json:"code"`

	// Of a prompt that is too long only.
	PromptTokens int `json:"n_prompt_tokens,omitempty"`
	Context      int `json:"n_ctx,omitempty"`

	retryAfter int // seconds after which to ask again; 0: nothing is said of it
}

func (e *apiError) Error() string { return e.Message }

// The values of apiError.Type.
const (
	typeInvalid     = "invalid_request_error"
	typeTooLong     = "exceed_context_size_error"
	typeAuth        = "authentication_error"
	typeNotFound    = "not_found_error"
	typeUnavailable = "unavailable_error"
	typeServer      = "server_error"
)

// badField says what is wrong with one field of a request.
func badField(name, format string, args ...any) *apiError {
	return &apiError{
		Message: name + ": " + fmt.Sprintf(format, args...),
		Type:    typeInvalid, Param: &name, Code: http.StatusBadRequest,
	}
}

// badRequest says what is wrong with a request as a whole.
func badRequest(format string, args ...any) *apiError {
	return &apiError{Message: fmt.Sprintf(format, args...), Type: typeInvalid, Code: http.StatusBadRequest}
}

var errLoading = &apiError{Message: "Loading model", Type: typeUnavailable, Code: http.StatusServiceUnavailable}

// asAPIError turns any error of a request's work into what its client is told.
func asAPIError(err error) *apiError {
	var api *apiError
	var tooLong *engine.ContextError
	var full *engine.MemoryError
	switch {
	case errors.As(err, &api):
		return api
	case errors.As(err, &tooLong):
		return &apiError{
			Message: tooLong.Error(), Type: typeTooLong, Code: http.StatusBadRequest,
			PromptTokens: tooLong.Prompt, Context: tooLong.Context,
		}
	case errors.As(err, &full) && full.Never():
		return badRequest("%v", full)
	case errors.As(err, &full):
		return &apiError{Message: full.Error(), Type: typeUnavailable, Code: http.StatusServiceUnavailable, retryAfter: int(retryLeast.Seconds())}
	case errors.Is(err, engine.ErrClosed), errors.Is(err, context.Canceled):
		return &apiError{Message: "the server is shutting down", Type: typeUnavailable, Code: http.StatusServiceUnavailable}
	}
	return &apiError{Message: err.Error(), Type: typeServer, Code: http.StatusInternalServerError}
}

// errorBody is the envelope of an error, in a body or in a frame.
type errorBody struct {
	Error *apiError `json:"error"`
}

func writeError(w http.ResponseWriter, e *apiError) {
	if e.retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(e.retryAfter))
	}
	writeJSON(w, e.Code, errorBody{e})
}

// writeJSON answers with v. A write that fails means that the client has gone:
// there is nobody to tell.
func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v)
}
