// Google Cloud Storage for tests: fake-gcs-server, spoken to as Google's own clients of the XML API do.
//
// Owns the translation of a put, a delete and a list of the XML API, which fake-gcs-server lacks, into its JSON API. Does not own objects,
// generations, conditions and ranges: those are fake-gcs-server's. Nothing asks for credentials.
//
//	gcs --listen 127.0.0.1:4443 --bucket NAME
package main

import (
	"encoding/json"
	"encoding/xml"
	"flag"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"

	"github.com/fsouza/fake-gcs-server/fakestorage"
)

// front stands before the server.
type front struct {
	server http.Handler
	bucket string
}

// object is what the JSON API says of one.
type object struct {
	Name       string `json:"name"`
	Generation string `json:"generation"`
	Etag       string `json:"etag"`
	Size       string `json:"size"`
	Updated    string `json:"updated"`
}

// contents is an object in a list of the XML API.
type contents struct {
	Key          string
	Generation   string
	LastModified string
	ETag         string
	Size         string
}

type page struct {
	XMLName               xml.Name `xml:"ListBucketResult"`
	IsTruncated           bool
	NextContinuationToken string `xml:",omitempty"`
	Contents              []contents
}

func main() {
	listen := flag.String("listen", "127.0.0.1:4443", "address")
	bucket := flag.String("bucket", "", "the one bucket")
	flag.Parse()
	server, err := fakestorage.NewServerWithOptions(fakestorage.Options{NoListener: true, PublicHost: "127.0.0.1"})
	if err != nil {
		log.Fatal(err)
	}
	server.CreateBucketWithOpts(fakestorage.CreateBucketOpts{Name: *bucket})
	log.Fatal(http.ListenAndServe(*listen, front{server.HTTPHandler(), *bucket}))
}

func (f front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	bucket, name, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	switch {
	case bucket != f.bucket:
		refuse(w, http.StatusNotFound, "NoSuchBucket")
	case name == "" && r.Method == http.MethodGet:
		f.list(w, r.URL.Query())
	case r.Method == http.MethodPut:
		f.put(w, r, name)
	case r.Method == http.MethodDelete:
		f.delete(w, name)
	default:
		f.server.ServeHTTP(w, r)
	}
}

// put is conditional where the header says so: 0 is an object that is not there.
func (f front) put(w http.ResponseWriter, r *http.Request, name string) {
	query := url.Values{"uploadType": {"media"}, "name": {name}}
	if generation := r.Header.Get("x-goog-if-generation-match"); generation != "" {
		query.Set("ifGenerationMatch", generation)
	}
	path := fmt.Sprintf("/upload/storage/v1/b/%s/o?%s", f.bucket, query.Encode())
	request := httptest.NewRequest(http.MethodPost, path, r.Body)
	request.Header.Set("content-type", r.Header.Get("content-type"))
	answer := httptest.NewRecorder()
	f.server.ServeHTTP(answer, request)
	var put object
	if answer.Code == http.StatusPreconditionFailed {
		refuse(w, answer.Code, "PreconditionFailed")
	} else if err := json.Unmarshal(answer.Body.Bytes(), &put); err != nil || answer.Code != http.StatusOK {
		refuse(w, http.StatusInternalServerError, "InternalError")
	} else {
		w.Header().Set("x-goog-generation", put.Generation)
		w.Header().Set("etag", fmt.Sprintf("%q", put.Etag))
	}
}

func (f front) delete(w http.ResponseWriter, name string) {
	path := fmt.Sprintf("/storage/v1/b/%s/o/%s", f.bucket, url.PathEscape(name))
	answer := httptest.NewRecorder()
	f.server.ServeHTTP(answer, httptest.NewRequest(http.MethodDelete, path, nil))
	switch answer.Code {
	case http.StatusOK, http.StatusNoContent:
		w.WriteHeader(http.StatusNoContent)
	case http.StatusNotFound:
		refuse(w, answer.Code, "NoSuchKey")
	default:
		refuse(w, answer.Code, "InternalError")
	}
}

// list begins behind `start-after`; the JSON API's offset is the first name that may come.
func (f front) list(w http.ResponseWriter, asked url.Values) {
	query := url.Values{"prefix": {asked.Get("prefix")}, "maxResults": {asked.Get("max-keys")}}
	if after := asked.Get("start-after"); after != "" {
		query.Set("startOffset", after+"\x00")
	}
	if token := asked.Get("continuation-token"); token != "" {
		query.Set("pageToken", token)
	}
	path := fmt.Sprintf("/storage/v1/b/%s/o?%s", f.bucket, query.Encode())
	answer := httptest.NewRecorder()
	f.server.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
	var listed struct {
		NextPageToken string   `json:"nextPageToken"`
		Items         []object `json:"items"`
	}
	if err := json.Unmarshal(answer.Body.Bytes(), &listed); err != nil || answer.Code != http.StatusOK {
		refuse(w, http.StatusInternalServerError, "InternalError")
		return
	}
	result := page{IsTruncated: listed.NextPageToken != "", NextContinuationToken: listed.NextPageToken}
	for _, item := range listed.Items {
		result.Contents = append(result.Contents, contents{item.Name, item.Generation, item.Updated, item.Etag, item.Size})
	}
	w.Header().Set("content-type", "application/xml")
	_ = xml.NewEncoder(w).Encode(result)
}

// refuse answers as Google does: by status, code and words.
func refuse(w http.ResponseWriter, status int, code string) {
	w.Header().Set("content-type", "application/xml")
	w.WriteHeader(status)
	fmt.Fprintf(w, "<Error><Code>%s</Code><Message>%s</Message></Error>", code, http.StatusText(status))
}
